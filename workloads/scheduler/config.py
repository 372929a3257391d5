"""The scheduler's limits and switches. Defaults follow vLLM's where it has one."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError
from .groups import GroupSpec, parse_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one scheduler.

    max_num_seqs                requests that run at the same time, the runner's rows
    max_num_batched_tokens      the token budget of a step
    max_model_len               longest sequence, prompt and output together; generation is cut there
    block_size, num_blocks      tokens a block; blocks in the pool, the null block 0 included
    enable_prefix_caching       full blocks are found again by the hash of their whole prefix
    enable_chunked_prefill      off: a prompt that does not fit in what is left of the budget waits
    long_prefill_token_threshold  most tokens that one prompt gets in a step; 0 is off; ignored for an only request
    prefill_schedule_interval   prefill work is done in every n-th step only, while a decode is there to run
    watermark                   fraction of the pool that an admission must leave free; ignored for an only request
    reserve_full_input          admit only what fits whole (vLLM: scheduler_reserve_full_isl)
    reserve_output              take the blocks of prompt and output at admission: rows never change afterwards
    num_speculative_tokens      most drafts that a request may bring to a step
    async_scheduling            a request whose token is still in flight is scheduled on: a placeholder stands for it
    deliver_late                tokens in flight when their request was preempted count, as with vLLM's own worker; off:
                                they are dropped and sampled again, as in the published figures of `ping_pong`
    kv_groups                   what each KV cache group keeps (see `groups.parse_group`); all take blocks of one pool
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    block_size: int = 16
    num_blocks: int = 8192
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    prefill_schedule_interval: int = 1
    watermark: float = 0.0
    reserve_full_input: bool = True
    reserve_output: bool = False
    num_speculative_tokens: int = 0
    async_scheduling: bool = False
    deliver_late: bool = False
    kv_groups: tuple[str, ...] = ("full",)

    def __post_init__(self) -> None:
        for field in ("max_num_seqs", "max_num_batched_tokens", "block_size", "prefill_schedule_interval"):
            _at_least(field, getattr(self, field), 1)
        for field in ("max_model_len", "num_blocks"):
            _at_least(field, getattr(self, field), 2)
        for field in ("long_prefill_token_threshold", "num_speculative_tokens"):
            _at_least(field, getattr(self, field), 0)
        if not 0.0 <= self.watermark < 1.0:
            raise UsageError(f"scheduler: watermark is {self.watermark}; give a fraction in [0, 1)")
        self._check_groups()

    def _check_groups(self) -> None:
        kinds = {group.kind for group in self.groups}
        if "state" in kinds and self.enable_prefix_caching:
            raise UsageError(
                "scheduler: enable_prefix_caching with a state group in kv_groups: a state holds its whole past, and no"
                " prefix of it can be found; set enable_prefix_caching: false"
            )
        if "window" in kinds and self.reserve_output:
            raise UsageError(
                "scheduler: reserve_output with a window in kv_groups: rows change as windows pass their blocks; leave"
                " one of the two out"
            )

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        """The KV cache groups, in the order of a request's block lists."""
        return parse_groups(self.kv_groups)

    @property
    def group_block_sizes(self) -> tuple[int, ...]:
        """Tokens a block of each group; a state's block holds a sequence of any length."""
        own = (self.block_size if group.has_slots else self.max_model_len for group in self.groups)
        return tuple(group.block_size or size for group, size in zip(self.groups, own, strict=True))

    @property
    def watermark_blocks(self) -> int:
        """The watermark in blocks, rounded down."""
        return int(self.watermark * self.num_blocks)

    def reach(self, limit: int) -> int:
        """Tokens that a request ending at `limit` may have in its blocks: its last steps verify drafts beyond it, and
        one in flight counts as if all of its own were accepted.
        """
        return min(limit + most_behind(self.num_speculative_tokens, ahead=self.async_scheduling), self.max_model_len)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that a request of `num_tokens` tokens owns at most at a time, in all groups together."""
        sizes = zip(self.groups, self.group_block_sizes, strict=True)
        return sum(group.most_held(num_tokens, size, self.max_in_flight) for group, size in sizes)

    @property
    def max_in_flight(self) -> int:
        """Tokens that may be scheduled before the first of them has come back: windows keep what they may still see."""
        return self.max_num_batched_tokens * (2 if self.async_scheduling else 1)


def most_behind(num_drafts: int, *, ahead: bool) -> int:
    """Tokens behind a request's end that it may have in its blocks; `ahead`: it is scheduled with a step in flight."""
    return max(num_drafts * (2 if ahead else 1) - 1, 0)


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"scheduler: {field} is {value}; it must be at least {least}")
