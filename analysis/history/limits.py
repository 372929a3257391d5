"""Limits of change-point detection. A step here is a lasting change of level in a series of results, not a step of an
inference engine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...errors import UsageError

_RANGES: dict[str, tuple[float, float]] = {
    "alpha": (1e-9, 0.05), "min_effect": (0.0, 1.0), "min_segment": (2, 100), "min_results": (4, 1000),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What a change of level needs to be reported as a step.

    alpha         significance: p below this, corrected for having tried every place in the series
    min_effect    least change of the medians, as a fraction
    min_segment   least number of results on each side, so that a single outlier is no step
    min_results   least length of a series in which steps are looked for
    """

    alpha: float = 0.001
    min_effect: float = 0.02
    min_segment: int = 3
    min_results: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            low, high = _RANGES[field.name]
            value = getattr(self, field.name)
            if not low <= value <= high:
                raise UsageError(f"history limits: {field.name} is {value}; give {low:g} to {high:g}")
        if self.min_results < 2 * self.min_segment:
            raise UsageError(
                f"history limits: min_results {self.min_results} cannot hold two segments of {self.min_segment};"
                f" give at least {2 * self.min_segment}"
            )
