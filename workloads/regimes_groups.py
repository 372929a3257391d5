"""Regimes of the KV cache's layout: several groups of layers, and blocks that kernels see smaller."""

from __future__ import annotations

from typing import ClassVar

from ..errors import UsageError
from .regime_base import Regime, Seeded
from .requests import PrefixHashes, Request


class Hybrid(Regime, frozen=True, kw_only=True):
    """Layers of full attention and of sliding windows: a request has a list of blocks in each group, and after a prefix
    hit most of a windowed list is null blocks.

    Published (row 11): full, 128 and 1024; 16 requests of 2112 + i / 64 that share 2048 tokens.
    """

    slug: ClassVar[str] = "hybrid"
    num_reqs: int = 16
    prefix_len: int = 256
    suffix_len: int = 64
    output_len: int = 32
    kv_groups: tuple[str, ...] = ("full", "window=64")

    def requests(self, source: Seeded) -> list[Request]:
        """Each prompt is one token longer than the one before, so that rows cross block borders in turns."""
        if self.suffix_len + self.num_reqs > self.prefix_len:
            raise UsageError(
                f"regime {self.slug}: suffix_len {self.suffix_len} + num_reqs {self.num_reqs} exceed prefix_len"
                f" {self.prefix_len}; a prompt is the prefix and at most as much again"
            )
        return [
            source.request(
                f"r{index}",
                self.prefix_len + self.suffix_len + index,
                self.output_len,
                PrefixHashes(self.prefix_len, (0, 1 + index)),
            )
            for index in range(self.num_reqs)
        ]


class KernelBlocks(Regime, frozen=True, kw_only=True):
    """Manager blocks that kernels see as several smaller ones: the scheduler's stream is that of the manager's size,
    and the runner's tables are as many times as wide.

    Published (row 12): 32 -> 16; 64 -> 16, 128 -> 64, 256 -> 128, 528 -> 16.
    """

    slug: ClassVar[str] = "kernel_blocks"
    num_reqs: int = 32
    prompt_len: int = 50
    output_len: int = 48
    block_size: int = 32
    kernel_block_size: int = 16

    def requests(self, source: Seeded) -> list[Request]:
        """Prompts end at every offset of a block."""
        return [
            source.request(f"r{index}", self.prompt_len + index, self.output_len) for index in range(self.num_reqs)
        ]
