"""A sweep as the reports see it: parameters and figures of each point. Whoever ran the sweep fills this in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...analysis.blocks import Block
from ...analysis.pace import pipelined
from .source import RecordingLike, calibration_name

Number = int | float
Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point of a sweep.

    parameters   what its axes chose, by dotted path: {"runner.commit_order": "first", ...}
    metrics      its figures by name with unit ("period_p50_ns"), None where not measured; empty unless status is ok
    reasons      why a metric is None, by the same name
    status       ok, failed or skipped, with `reason` for the last two
    calibration  the calibration's name where device times are modelled, empty where they were measured
    href         the point's own page, relative to the sweep's; empty where there is none
    blocks       its turns, where it was measured side by side with others of its repeat
    turns        the parameter in which those others differ
    """

    id: str
    parameters: Mapping[str, object]
    status: Status = "ok"
    reason: str = ""
    metrics: Mapping[str, Number | None] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    calibration: str = ""
    repeat: int = 0
    href: str = ""
    blocks: tuple[Block, ...] = ()
    turns: str = ""

    @property
    def origin(self) -> str:
        """The calibration's name without its description."""
        return calibration_name(self.calibration)

    def value(self, parameter: str) -> str:
        """A parameter as text, "-" where the point does not name it."""
        found = self.parameters.get(parameter)
        if found is None:
            return "-"
        if type(found) is int:  # the charts ask this some 100,000 times: no encoder for what str does too
            return str(found)
        return found if isinstance(found, str) else json.dumps(found)


@dataclass(frozen=True, slots=True)
class SweepView:
    """A sweep.

    representatives   (label, recording) whose step timelines the page shows, a few at most
    varying           parameters that differ between points, in order of first appearance
    """

    name: str
    points: tuple[SweepPoint, ...]
    environment: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    representatives: tuple[tuple[str, RecordingLike], ...] = ()
    varying: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for point in self.points for name in point.parameters)
        varying = tuple(name for name in names if len({point.value(name) for point in self.points}) > 1)
        object.__setattr__(self, "varying", varying)

    @property
    def measured(self) -> tuple[SweepPoint, ...]:
        """The points that ended well."""
        return tuple(point for point in self.points if point.status == "ok")

    @property
    def paced(self) -> bool:
        """Whether steps are pipelined at any point: then all points are told by one figure, their pace."""
        return any(pipelined(point.metrics) for point in self.measured)

    @property
    def origin(self) -> str:
        """The names of the calibrations behind modelled points, empty when no point is modelled."""
        return ", ".join(sorted({point.origin for point in self.points if point.origin}))
