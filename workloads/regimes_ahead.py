"""Regimes of two steps in flight: disjoint halves in turns, and preemption while a token is on its way."""

from __future__ import annotations

from typing import ClassVar

from .regime_base import Regime, Seeded, with_window
from .regimes_pressure import MassPreempt
from .requests import Request
from .workload import Workload


class Alternating(Regime, frozen=True, kw_only=True):
    """A queue of two steps whose requests have nothing in common: the second step takes those that the first left over,
    and from then on each half waits for its tokens while the other one runs. So every step changes all rows.

    The budget of a step is the prompts of one half. Requests do not go on with a token in flight here, whatever the
    hand-off: that is what splits them.
    Published (row 2): 64 x 64/128, budget 2048; Jaccard 0.0 in every step, 32 in and 32 out.
    """

    slug: ClassVar[str] = "alternating"
    queue_depth: ClassVar[int] = 2
    num_reqs: int = 64
    prompt_len: int = 64
    output_len: int | None = None
    steps: int = 100
    max_num_batched_tokens: int = 2048

    def requests(self, source: Seeded) -> list[Request]:
        """One shape for all."""
        output_len = self.output_len or self.steps // 2 + 2
        return [source.request(f"r{index}", self.prompt_len, output_len) for index in range(self.num_reqs)]

    def build(self, source: Seeded) -> Workload:
        """Two steps in the queue; the regime begins with the third, when the first half comes back."""
        workload = self.assemble(self.requests(source))
        return with_window(workload, lambda shape: shape.num_new == 0 and shape.overlap == 0.0)

    @property
    def scheduled_ahead(self) -> bool:
        """Never."""
        return False


class PingPong(MassPreempt, frozen=True, kw_only=True):
    """Mass preemption with requests scheduled ahead of their tokens: the pool is always one block short, and steps with
    one more request and steps with one preempted take turns.

    Published (row 6): row 4 at queue depth 2; half of the steps change the batch, against a sixth without it.
    """

    slug: ClassVar[str] = "ping_pong"
    async_scheduling: bool = True
