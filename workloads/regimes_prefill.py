"""Regimes of prompts: in chunks, in one-token extensions, and mostly found in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..errors import UsageError
from .regime_base import Regime, Seeded, prefill_steps, with_window
from .requests import PrefixHashes, Request
from .workload import Workload

_LONG_PROMPT = 10_000


class Chunked(Regime, frozen=True, kw_only=True):
    """`num_reqs` - 1 decodes, and beside them one long prompt after the other, cut to what the budget leaves.

    `long_prompt_len` None is 10,000, or as much as max_model_len allows. `num_long` None is enough for `steps` steps.
    Published (row 8): one prompt of 10,000 at budget 2048 beside 0, 1, 8 or 64 decodes.
    """

    slug: ClassVar[str] = "chunked"
    num_reqs: int = 64
    long_prompt_len: int | None = None
    num_long: int | None = None
    long_output_len: int = 1
    prompt_len: int = 32
    output_len: int | None = None
    steps: int = 100

    def requests(self, source: Seeded) -> list[Request]:
        """Decodes first, so that each step serves them before it cuts the long prompt."""
        decodes = self.num_reqs - 1
        long_len = self.long_prompt_len or min(_LONG_PROMPT, self.max_model_len - self.long_output_len)
        filling = prefill_steps(self.num_reqs, self.prompt_len, self.max_num_batched_tokens)
        chunk = self.max_num_batched_tokens - decodes
        if self.long_prefill_token_threshold and decodes:
            chunk = min(chunk, self.long_prefill_token_threshold)
        per_long = (-(-long_len // chunk) + self.long_output_len - 1) * self.prefill_schedule_interval
        num_long = self.num_long or -(-self.steps // per_long) + 1
        output_len = self.output_len or filling + num_long * per_long + self.prefill_schedule_interval
        return [
            *(source.request(f"d{index}", self.prompt_len, output_len) for index in range(decodes)),
            *(source.request(f"L{index}", long_len, self.long_output_len) for index in range(num_long)),
        ]

    def build(self, source: Seeded) -> Workload:
        """With the window in which all rows are taken and a prompt is in work."""
        rows = self.num_reqs
        workload = self.assemble_with_rows(self.requests(source), self.max_num_seqs or rows)
        return with_window(
            workload, lambda shape: shape.num_reqs == rows and shape.num_tokens > rows and shape.num_new <= 1
        )

    def enough_blocks(self, requests: Sequence[Request], rows: int) -> int:
        """The long prompts share the rows that the decodes leave: usually one is there at a time."""
        decodes, long = requests[: self.num_reqs - 1], requests[self.num_reqs - 1 :]
        beside = max(rows - len(decodes), 1)
        return super().enough_blocks(decodes, rows) - 1 + super().enough_blocks(long, beside)


class ShortExtend(Regime, frozen=True, kw_only=True):
    """One token left of the prompt: looks like a decode, is none, and must not be taken for one.

    A first prompt of three budgets and one token leaves a last chunk of 1. Then `num_reqs` prompts of
    `prefix_len` shared tokens and one of their own: all but the first hit the cache and have one token to compute.
    Published (row 9): budget 3333 and 10,000 = 3 x 3333 + 1; prompt 513 with a hit of 512.
    """

    slug: ClassVar[str] = "short_extend"
    num_reqs: int = 16
    prefix_len: int = 128
    output_len: int = 16
    max_num_batched_tokens: int = 256

    def requests(self, source: Seeded) -> list[Request]:
        """The long prompt is first in the queue: it has the whole budget for itself."""
        long_len = 3 * self.max_num_batched_tokens + 1
        shared = [
            source.request(
                f"r{index}", self.prefix_len + 1, self.output_len, PrefixHashes(self.prefix_len, (0, 1 + index))
            )
            for index in range(self.num_reqs)
        ]
        return [source.request("L0", long_len, self.output_len), *shared]


class PrefixStorm(Regime, frozen=True, kw_only=True):
    """Many prompts, few prefixes: rows full of blocks are installed for a handful of computed tokens.

    Published (row 13): 4 prefixes x 2048 + 64, 256 requests, budget 8192: 16,387 blocks in step 1.
    """

    slug: ClassVar[str] = "prefix_storm"
    num_reqs: int = 64
    num_prefixes: int = 4
    prefix_len: int = 256
    suffix_len: int = 16
    output_len: int = 16
    max_num_batched_tokens: int = 1024

    def requests(self, source: Seeded) -> list[Request]:
        """Prefixes in turn."""
        if self.suffix_len > self.prefix_len:
            raise UsageError(f"regime {self.slug}: suffix_len {self.suffix_len} exceeds prefix_len {self.prefix_len}")
        return [
            source.request(
                f"r{index}",
                self.prefix_len + self.suffix_len,
                self.output_len,
                PrefixHashes(self.prefix_len, (index % self.num_prefixes, self.num_prefixes + index)),
            )
            for index in range(self.num_reqs)
        ]
