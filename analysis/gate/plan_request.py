"""What somebody asks of a plan before anything was measured: one frozen, ranged object."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError
from .detectable import GatePlan, plan
from .limits import Limits

_RANGES: dict[str, tuple[str, float, float]] = {
    "sd": ("--sd", 1e-5, 0.999), "points": ("--points", 1, 100_000), "block_s": ("--block", 1e-3, 86_400),
    "launch_s": ("--launch", 0, 86_400),
}  # fmt: skip
_DAY = "no machine's launches agree better than 1e-05, and no block or launch lasts longer than a day"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A machine, told by hand, and the work of a gate on it. Raises UsageError for what no machine does.

    sd                  spread of equal arms between launches, a fraction
    points              points of the sweep
    block_s, launch_s   length of a block; seconds until both arms are ready
    """

    sd: float
    points: int = 1
    block_s: float = 1.2
    launch_s: float = 10.0

    def __post_init__(self) -> None:
        wrong = [
            f"{option} is {getattr(self, name):g}; give {low:g} to {high:g}"
            for name, (option, low, high) in _RANGES.items()
            if not low <= getattr(self, name) <= high  # not a number fails this, too
        ]
        if wrong:
            raise UsageError(f"gate plan: {'; '.join(wrong)} ({_DAY})")

    def plan(self, limits: Limits) -> GatePlan:
        """What such a gate finds, and what it costs."""
        return plan(self.sd, self.points, limits, block_s=self.block_s, launch_s=self.launch_s)
