"""What the gate demands and what it promises: one frozen, ranged object."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...errors import UsageError

_RANGES: dict[str, tuple[float, float]] = {
    "min_effect": (0.0, 1.0), "must_detect": (0.0, 10.0), "geomean_effect": (0.0, 1.0),
    "launches": (3, 1000), "pairs": (2, 10_000), "min_launches": (3, 1000), "max_dropped_share": (0.0, 0.5),
    "confidence": (0.5, 0.9999), "confirm_confidence": (0.5, 0.9999), "calibration_launches": (20, 10_000),
    "calibration_days": (0, 3650), "min_history": (10, 10_000), "noise_alpha": (0.0, 0.5),
}  # fmt: skip
OPTIONS = {
    "min_effect": "--min-effect", "must_detect": "--must-detect", "launches": "--launches", "pairs": "--pairs",
    "calibration_launches": "--launches (of a calibration)",
}  # fmt: skip
"""What a user calls a field, where it is an option; the others go by their own name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Effects are fractions (0.02 is 2 % slower), confidences are one-sided.

    min_effect            no smaller slowdown is called a regression, however sure
    must_detect           a pass says that the slowdown is smaller than this
    launches, pairs       what a stage is made of: process launches of each arm, pairs of blocks in each
    min_launches          with fewer whole launches nothing is decided
    max_dropped_share     of the pairs; with more the machine was not fit for a measurement
    confidence            of the bounds of one stage; `confirm_confidence` of the pooled bounds and the suite's
    geomean_effect        a slowdown of all points together that fails the suite
    calibration_launches  least launches of an A/A calibration, which is valid for `calibration_days`
    min_history           least results of a stored history that can fail or pass a new one
    noise_alpha           a run so much noisier than the calibration (F test) brings its own floor
    """

    min_effect: float = 0.02
    must_detect: float = 0.05
    geomean_effect: float = 0.01
    launches: int = 5
    pairs: int = 6
    min_launches: int = 3
    max_dropped_share: float = 0.25
    confidence: float = 0.95
    confirm_confidence: float = 0.99
    calibration_launches: int = 20
    calibration_days: int = 30
    min_history: int = 10
    noise_alpha: float = 0.001

    def __post_init__(self) -> None:
        wrong = [_outside(field.name, getattr(self, field.name)) for field in fields(self)]
        if self.launches < self.min_launches and self.launches >= _RANGES["launches"][0]:
            wrong.append(f"--launches is {self.launches}; a verdict needs {self.min_launches} whole ones")
        if self.must_detect <= self.min_effect:
            wrong.append(
                f"--must-detect {self.must_detect:g} is not above --min-effect {self.min_effect:g}, so a pass would"
                " promise more than a failure demands"
            )
        said = [text for text in wrong if text]
        if said:
            raise UsageError(f"gate limits: {'; '.join(said)}")


def _outside(name: str, value: float) -> str:
    """What is wrong with a value that is outside its range; empty where nothing is."""
    low, high = _RANGES[name]
    if low <= value <= high:
        return ""
    return f"{OPTIONS.get(name, name)} is {value:g}; give {low:g} to {high:g}"
