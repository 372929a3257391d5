"""The runner's view of KV cache groups: block sizes of manager and kernel, and which layers belong to which group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..workloads.scheduler.block_pool import NULL_BLOCK as NULL_BLOCK
from ..workloads.scheduler.groups import GroupSpec, parse_groups
from .config import RunnerConfig
from .shards import WHOLE, Shards


@dataclass(frozen=True, slots=True)
class KVGroup:
    """One group. The scheduler speaks of manager blocks; tables, slots and kernels of kernel blocks.

    block_size, kernel_block_size  tokens a manager block and a kernel block, those of all ranks; the first is a
        multiple of the second
    slack  tokens that a step may turn out to have counted too many: drafts in flight that are rejected
    shards  how blocks are cut among the ranks of decode context parallelism
    """

    spec: GroupSpec
    block_size: int
    kernel_block_size: int
    slack: int = 0
    shards: Shards = WHOLE

    @property
    def rank_block_size(self) -> int:
        """Tokens of a kernel block that lie on one rank."""
        return self.kernel_block_size // self.shards.ranks

    @property
    def ratio(self) -> int:
        """Kernel blocks in a manager block."""
        return self.block_size // self.kernel_block_size

    @property
    def window(self) -> int | None:
        """Positions that a query sees, itself included; None sees all."""
        return self.spec.window

    @property
    def has_slots(self) -> bool:
        """Whether each token has a KV slot in this group; a state group's tokens have none."""
        return self.spec.has_slots

    def passed(self, num_computed: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """[R] kernel blocks of each row that no query behind `num_computed` tokens can see any more."""
        assert self.window is not None
        first_seen = np.maximum(num_computed - (self.slack + self.window - 1), 0)
        passed: npt.NDArray[np.int32] = first_seen // self.block_size * self.ratio
        return passed

    def blocks_for(self, num_tokens: int) -> int:
        """Kernel blocks of a row that holds `num_tokens` tokens."""
        return -(-num_tokens // self.block_size) * self.ratio if self.has_slots else self.ratio


def resolve_groups(config: RunnerConfig) -> tuple[KVGroup, ...]:
    """The groups of the switches `kv_groups`, `block_size` and `kernel_block_size`. Raises UsageError.

    A state block is not cut: no kernel addresses tokens in it.
    """
    return tuple(_resolve(config, spec) for spec in parse_groups(config.kv_groups))


def _resolve(config: RunnerConfig, spec: GroupSpec) -> KVGroup:
    if not spec.has_slots:
        size = spec.block_size or config.max_model_len
        return KVGroup(spec, size, size)
    block_size = spec.block_size or config.block_size
    kernel_size = config.kernel_block_size or block_size
    if block_size % kernel_size:
        raise UsageError(
            f"kernel_block_size: {kernel_size} does not divide the block size {block_size};"
            " a manager block is a whole number of kernel blocks"
        )
    shards = Shards(config.dcp, config.dcp_interleave)
    return KVGroup(spec, block_size * config.dcp, kernel_size * config.dcp, config.num_drafts, shards)


def map_to_kernel_blocks(block_ids: npt.ArrayLike, ratio: int) -> npt.NDArray[np.int32]:
    """Manager ids [n] -> kernel ids [n * ratio]: block b holds the kernel blocks b * ratio .. b * ratio + ratio - 1."""
    ids = np.asarray(block_ids, dtype=np.int32)
    if ratio == 1:
        return ids
    first = np.multiply(ids, ratio, dtype=np.int32)[:, None]
    return np.add(first, np.arange(ratio, dtype=np.int32), dtype=np.int32).reshape(-1)


def row_blocks(block_ids: npt.ArrayLike, ratio: int) -> npt.NDArray[np.int32]:
    """`map_to_kernel_blocks` for a table's row, in which every part of the null block is the null block."""
    ids = np.asarray(block_ids, dtype=np.int32)
    blocks = map_to_kernel_blocks(ids, ratio)
    if ratio > 1:
        blocks[np.repeat(ids, ratio) == NULL_BLOCK] = NULL_BLOCK
    return blocks


def assign_layers(groups: Sequence[KVGroup], windows: Sequence[int | None] | None, num_layers: int) -> tuple[int, ...]:
    """The group of each layer. `windows` are the model's own, None where it has none.

    A model without windows takes those of the groups in turn: layer i belongs to the i-th of them, round and round.
    A model with windows has each layer in the group of its window, or in a full group, which keeps more than it needs.
    Raises UsageError for a layer that no group keeps enough for, and where groups outnumber layers.
    """
    keeping = [index for index, group in enumerate(groups) if group.has_slots]
    if windows is None:
        if len(keeping) > num_layers:
            raise UsageError(
                f"kv_groups: {len(keeping)} groups, but the model has {num_layers} layers; use model=tiny-6 or larger"
            )
        return tuple(keeping[layer % len(keeping)] for layer in range(num_layers))
    by_window = {groups[index].window: index for index in reversed(keeping)}
    return tuple(_group_of(layer, window, by_window) for layer, window in enumerate(windows))


def _group_of(layer: int, window: int | None, by_window: Mapping[int | None, int]) -> int:
    for kept in (window, None):
        if kept in by_window:
            return by_window[kept]
    missing = "full" if window is None else f"window={window}"
    raise UsageError(f"kv_groups: no group keeps what layer {layer} sees; add {missing}, or full")
