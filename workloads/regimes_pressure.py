"""Regimes of too few blocks and of resets: requests lose their rows and come back with others."""

from __future__ import annotations

from typing import ClassVar

from ..errors import UsageError
from .regime_base import Regime, Seeded
from .requests import Request
from .seeds import generator
from .workload import ForcedReset, Workload


class MassPreempt(Regime, frozen=True, kw_only=True):
    """Small requests cross block borders in lock-step until half of the batch is preempted at once.

    Published (row 4), and default: 256 x 16/64, 300 blocks, budget 16384, no prefix cache: 107 preempted in step 1.
    """

    slug: ClassVar[str] = "mass_preempt"
    num_reqs: int = 256
    prompt_len: int = 16
    output_len: int = 64
    num_blocks: int | None = 300
    max_num_batched_tokens: int = 16_384
    max_model_len: int = 4096
    enable_prefix_caching: bool = False

    def requests(self, source: Seeded) -> list[Request]:
        """One shape for all."""
        return [source.request(f"r{index}", self.prompt_len, self.output_len) for index in range(self.num_reqs)]


class ForcedResets(Regime, frozen=True, kw_only=True):
    """Everything that runs is preempted at given steps and resumes as the prefill budget allows.

    Published (row 5): 128 x 512/256, budget 8192, resets at 60, 120, 180.
    """

    slug: ClassVar[str] = "forced_reset"
    num_reqs: int = 32
    prompt_len: int = 32
    output_len: int = 64
    max_num_batched_tokens: int = 256
    reset_steps: tuple[int, ...] = (20, 40, 60)

    def requests(self, source: Seeded) -> list[Request]:
        """One shape for all."""
        return [source.request(f"r{index}", self.prompt_len, self.output_len) for index in range(self.num_reqs)]

    def build(self, source: Seeded) -> Workload:
        """With the resets as events."""
        return self.assemble(self.requests(source), tuple(ForcedReset(step) for step in sorted(self.reset_steps)))


class Thrash(Regime, frozen=True, kw_only=True):
    """Mixed lengths in a small pool: how often admission is regretted hangs on one knob.

    Published (row 7): 400 x 64-4096 / 32-512, 2,000 blocks; watermark 0.02, or none, or reserve_full_input off too.
    The last bites where a prompt exceeds a step's budget and preempted work is lost: hence no prefix cache.
    """

    slug: ClassVar[str] = "thrash"
    num_reqs: int = 60
    prompt_low: int = 16
    prompt_high: int = 512
    output_low: int = 8
    output_high: int = 64
    max_num_batched_tokens: int = 128
    max_num_seqs: int | None = 64
    num_blocks: int | None = 128
    enable_prefix_caching: bool = False

    def requests(self, source: Seeded) -> list[Request]:
        """Even draws from two independent streams."""
        if self.prompt_high < self.prompt_low or self.output_high < self.output_low:
            raise UsageError(f"regime {self.slug}: prompt_high and output_high must not lie below the low ends")
        prompts = generator(source.seed, "thrash/prompt-lengths").integers(
            self.prompt_low, self.prompt_high, size=self.num_reqs, endpoint=True
        )
        outputs = generator(source.seed, "thrash/output-lengths").integers(
            self.output_low, self.output_high, size=self.num_reqs, endpoint=True
        )
        return [source.request(f"r{i}", int(prompts[i]), int(outputs[i])) for i in range(self.num_reqs)]
