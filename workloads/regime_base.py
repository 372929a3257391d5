"""What all regimes share: the scheduler's limits as parameters, and how a workload is put together from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from ..errors import UsageError
from .driver import StepShape, dry_run
from .requests import PrefixHashes, Request
from .scheduler import SchedulerConfig, token_limit
from .scheduler.config import most_behind
from .scheduler.groups import parse_groups
from .workload import ForcedReset, Workload

RegimeTest = Callable[[StepShape], bool]


@dataclass(frozen=True, slots=True)
class Seeded:
    """Where the tokens of a workload come from."""

    seed: int
    vocab_size: int

    def request(self, req_id: str, prompt_len: int, output_len: int, prefix: PrefixHashes | None = None) -> Request:
        """A request that is there from the start."""
        return Request(req_id, prompt_len, output_len, self.vocab_size, seed=self.seed, prefix=prefix)


class Regime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters that every regime has; None is derived: rows for all requests, a pool that never runs short."""

    slug: ClassVar[str]
    queue_depth: ClassVar[int] = 1
    max_num_seqs: int | None = None
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    block_size: int = 16
    num_blocks: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    prefill_schedule_interval: int = 1
    watermark: float = 0.0
    reserve_full_input: bool = True
    reserve_output: bool = False
    num_speculative_tokens: int = 0
    async_scheduling: bool = False
    kv_groups: tuple[str, ...] = ("full",)

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            self._check(field, getattr(self, field))

    def _check(self, field: str, value: object) -> None:
        """Counts are at least 1 and lists not empty; the scheduler's configuration checks what may be 0."""
        numbers = value if isinstance(value, tuple) else (value,)
        smallest = min((n for n in numbers if isinstance(n, int) and not isinstance(n, bool)), default=1)
        least = 0 if field in ("long_prefill_token_threshold", "num_speculative_tokens") else 1
        if not numbers or smallest < least:
            raise UsageError(f"regime {self.slug}: {field} is {value}; use at least {least}, and no empty list")

    def build(self, source: Seeded) -> Workload:
        """The workload of these parameters."""
        return self.assemble(self.requests(source))

    def requests(self, source: Seeded) -> list[Request]:
        """Its requests, in queue order."""
        raise TypeError(f"{type(self).__name__} states no requests")

    def assemble(self, requests: Sequence[Request], events: tuple[ForcedReset, ...] = ()) -> Workload:
        """The workload around `requests`, with a row for each. Raises UsageError for one that can never run."""
        return self.assemble_with_rows(requests, self.max_num_seqs or len(requests), events)

    def assemble_with_rows(
        self, requests: Sequence[Request], rows: int, events: tuple[ForcedReset, ...] = ()
    ) -> Workload:
        """The same, where requests wait for one of `rows` rows."""
        config = SchedulerConfig(
            max_num_seqs=rows,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            num_blocks=self.num_blocks or self.enough_blocks(requests, rows),
            enable_prefix_caching=self.enable_prefix_caching,
            enable_chunked_prefill=self.enable_chunked_prefill,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            prefill_schedule_interval=self.prefill_schedule_interval,
            watermark=self.watermark,
            reserve_full_input=self.reserve_full_input,
            reserve_output=self.reserve_output,
            num_speculative_tokens=self.num_speculative_tokens,
            async_scheduling=self.scheduled_ahead,
            kv_groups=self.kv_groups,
        )
        for request in requests:
            token_limit(request, config)
        parameters = {name: getattr(self, name) for name in self.__struct_fields__}
        return Workload(
            name=self.slug, requests=tuple(requests), scheduler=config, events=events, parameters=parameters,
            queue_depth=self.queue_depth,
        )  # fmt: skip

    @property
    def scheduled_ahead(self) -> bool:
        """Whether requests are scheduled while their token is in flight."""
        return self.async_scheduling

    def enough_blocks(self, requests: Sequence[Request], rows: int) -> int:
        """The null block, and room for the `rows` longest requests at the same time."""
        behind = most_behind(self.num_speculative_tokens, ahead=self.scheduled_ahead)
        tokens = (min(request.prompt_len + request.output_len + behind, self.max_model_len) for request in requests)
        blocks = sorted(map(self.blocks_of, tokens), reverse=True)
        return 1 + sum(blocks[:rows])

    def blocks_of(self, num_tokens: int) -> int:
        """Blocks that a request of `num_tokens` tokens owns at most, in all KV cache groups together."""
        groups, budget = parse_groups(self.kv_groups), self.max_num_batched_tokens
        return sum(group.most_held(num_tokens, group.block_size or self.block_size, budget) for group in groups)


def with_window(workload: Workload, in_regime: RegimeTest) -> Workload:
    """`workload` with the steps between which `in_regime` holds, found by a dry run; as it is, where none does."""
    inside = [shape.step for shape in dry_run(workload) if in_regime(shape)]
    if not inside:
        return workload
    return replace(workload, settle_steps=inside[0], regime_steps=inside[-1] - inside[0] + 1)


def prefill_steps(num_reqs: int, prompt_len: int, budget: int) -> int:
    """Upper bound on the steps until `num_reqs` prompts are computed while earlier ones already decode."""
    if budget <= num_reqs:
        raise UsageError(
            f"max_num_batched_tokens {budget} must exceed the {num_reqs} rows that decode in a step;"
            " raise it, or lower num_reqs in the regime's settings"
        )
    return -(-num_reqs * prompt_len // (budget - num_reqs)) + 1
