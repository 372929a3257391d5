"""A folder of recordings as the reports see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .source import calibration_name


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One recording of a folder. `metrics` and `reasons` as in a sweep's point; `error` says why it has no page."""

    name: str
    href: str = ""
    source: str = ""
    created: str = ""
    calibration: str = ""
    metrics: Mapping[str, int | float | None] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def origin(self) -> str:
        """The calibration's name without its description."""
        return calibration_name(self.calibration)
