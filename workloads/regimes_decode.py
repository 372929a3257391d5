"""Regimes of mostly decoding batches: what a step costs when little or much of the batch changes."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

from ..errors import UsageError
from .regime_base import Regime, Seeded, prefill_steps, with_window
from .requests import Request
from .seeds import generator
from .workload import Workload


class Steady(Regime, frozen=True, kw_only=True):
    """`num_reqs` requests decode side by side; nobody comes or goes. `output_len` None lasts for `steps` steps.

    Published (row 1): 64 x 512/256, budget 2048, seqs 128.
    """

    slug: ClassVar[str] = "steady"
    num_reqs: int = 64
    prompt_len: int = 32
    output_len: int | None = None
    steps: int = 100

    def requests(self, source: Seeded) -> list[Request]:
        """One shape for all."""
        filling = prefill_steps(self.num_reqs, self.prompt_len, self.max_num_batched_tokens)
        output_len = self.output_len or self.steps + filling + 1
        return [source.request(f"r{index}", self.prompt_len, output_len) for index in range(self.num_reqs)]

    def build(self, source: Seeded) -> Workload:
        """With the window in which all rows decode."""
        rows = self.num_reqs
        return with_window(
            self.assemble(self.requests(source)), lambda shape: shape.num_reqs == rows and shape.num_tokens == rows
        )


class CondenseStorm(Regime, frozen=True, kw_only=True):
    """Half of `num_reqs` rows end in one step: the first half, or every second one.

    Nobody arrives: as many rows move as holes lie below the new count (row 3: N/2 moves for the first half). With
    `refill` as many requests enter in the very step that tells of the end, and nothing moves.
    """

    slug: ClassVar[str] = "condense_storm"
    num_reqs: int = 64
    pattern: Literal["first_half", "every_second"] = "first_half"
    refill: bool = False
    prompt_len: int = 16
    short_output_len: int = 8
    long_output_len: int = 24

    def requests(self, source: Seeded) -> list[Request]:
        """Row i is request i, because one step admits them all."""
        if self.num_reqs * self.prompt_len > self.max_num_batched_tokens:
            raise UsageError(
                f"regime {self.slug}: {self.num_reqs} prompts of {self.prompt_len} exceed max_num_batched_tokens "
                f"{self.max_num_batched_tokens}; one step must admit them all"
            )
        requests = [
            source.request(f"r{index}", self.prompt_len, self._output_len(index)) for index in range(self.num_reqs)
        ]
        extra = self.num_reqs // 2 if self.refill else 0
        return requests + [
            source.request(f"s{index}", self.prompt_len, self.long_output_len) for index in range(extra)
        ]

    def build(self, source: Seeded) -> Workload:
        """Refills wait for a row."""
        rows = self.max_num_seqs or self.num_reqs
        return self.assemble_with_rows(self.requests(source), rows)

    def _output_len(self, index: int) -> int:
        ends_early = index < self.num_reqs // 2 if self.pattern == "first_half" else index % 2 == 0
        return self.short_output_len if ends_early else self.long_output_len


class Churn(Regime, frozen=True, kw_only=True):
    """`num_reqs` rows are always taken, and answers are so short that nearly every step changes the membership.

    Lengths are drawn evenly from the two lists. `num_requests` None is enough for `steps` steps.
    Published (row 14): 600 x in {75,578,1469,2744,5187} / out {6,9,13,24,55}, budget 8192, seqs 256.
    """

    slug: ClassVar[str] = "churn"
    num_reqs: int = 64
    num_requests: int | None = None
    prompt_lens: tuple[int, ...] = (8, 24, 48)
    output_lens: tuple[int, ...] = (5, 6, 7, 8, 9, 11, 13, 16, 19, 24)
    steps: int = 100

    def requests(self, source: Seeded) -> list[Request]:
        """Lengths from two independent streams."""
        count = self.num_requests or self._enough_requests()
        prompts = generator(source.seed, "churn/prompt-lengths").choice(self.prompt_lens, size=count)
        outputs = generator(source.seed, "churn/output-lengths").choice(self.output_lens, size=count)
        return [source.request(f"r{index}", int(prompts[index]), int(outputs[index])) for index in range(count)]

    def build(self, source: Seeded) -> Workload:
        """With the window from the first full batch that was not just filled to the last full one."""
        rows = self.num_reqs
        workload = self.assemble_with_rows(self.requests(source), self.max_num_seqs or rows)
        return with_window(workload, lambda shape: shape.num_reqs == rows > shape.num_new)

    def _enough_requests(self) -> int:
        """A row serves one request in about mean(output) steps; the last of them end late, hence one batch more."""
        mean_output = sum(self.output_lens) / len(self.output_lens)
        return self.num_reqs * (2 + round(self.steps / mean_output))


class GraphEdge(Regime, frozen=True, kw_only=True):
    """Decode batches of given `sizes`, each for `hold` steps: one above a captured size and exactly on it.

    Published (row 15): 513 and 512, 257, 249 and 248, 17, 9.
    """

    slug: ClassVar[str] = "graph_edge"
    sizes: tuple[int, ...] = (65, 64, 57, 56, 17, 16, 9, 8)
    hold: int = 10
    prompt_len: int = 4

    def requests(self, source: Seeded) -> list[Request]:
        """The batch only shrinks: at the end of each stair as many requests end as the next size is smaller."""
        if any(small >= large for large, small in pairwise(self.sizes)):
            raise UsageError(f"regime {self.slug}: sizes {self.sizes} must descend")
        if self.sizes[0] * self.prompt_len > self.max_num_batched_tokens:
            raise UsageError(
                f"regime {self.slug}: {self.sizes[0]} prompts of {self.prompt_len} exceed max_num_batched_tokens "
                f"{self.max_num_batched_tokens}; one step must admit them all"
            )
        outputs: list[int] = []
        for stair, size in enumerate((*self.sizes[1:], 0), start=1):
            leaving = self.sizes[stair - 1] - size
            outputs += [1 + stair * self.hold] * leaving
        return [source.request(f"r{index}", self.prompt_len, length) for index, length in enumerate(outputs)]


class LongRow(Regime, frozen=True, kw_only=True):
    """One long request among short ones: the width of the block table is set by max_model_len, not by use.

    Published (row 16): one at 128k among 255 at 1k.
    """

    slug: ClassVar[str] = "long_row"
    num_reqs: int = 16
    long_len: int = 4096
    short_len: int = 64
    output_len: int = 40
    max_model_len: int = 131_072

    def requests(self, source: Seeded) -> list[Request]:
        """Lengths are those at the end, output included. The long one is first in the queue."""
        if self.short_len <= self.output_len or self.long_len <= self.output_len:
            raise UsageError(f"regime {self.slug}: short_len and long_len must exceed output_len {self.output_len}")
        short = [
            source.request(f"r{index}", self.short_len - self.output_len, self.output_len)
            for index in range(1, self.num_reqs)
        ]
        return [source.request("r0", self.long_len - self.output_len, self.output_len), *short]
