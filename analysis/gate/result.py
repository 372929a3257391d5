"""What a gate hands to whoever writes it down: the verdicts, and what they were measured on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .beside import Beside
from .direction import unit_of as unit_of
from .suite import SuiteVerdict


@dataclass(frozen=True, slots=True)
class Level:
    """A metric's own value in one arm: the median over launches, and their smallest and largest. Not a comparison.

    values   one for each launch (of a stored history: for each result), in order
    """

    value: float
    low: float
    high: float
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Levels:
    """Both arms' values; None where an arm has none. Of a stored history `base` is that of all stored results."""

    base: Level | None
    head: Level | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """The one object that outputs are made from.

    kind        "paired": both arms side by side; "history": a new result against stored ones, the weaker promise
    base, head  the arms as the user named them
    machine     the environment, see `fingerprint`
    notes       sentences for people: dropped pairs, the calibration, what was left out
    levels      (point, metric) -> the arms' own values, in the metric's unit
    beside      figures that are shown and not gated
    commit      of the head, None where it is not known; with "-dirty" where files differ from it
    time        when the measurement began (stored: when the head was measured), ISO 8601 in UTC; None: not known
    """

    suite: SuiteVerdict
    kind: Literal["paired", "history"]
    base: str
    head: str
    machine: Mapping[str, object]
    notes: tuple[str, ...] = ()
    levels: Mapping[tuple[str, str], Levels] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()
    commit: str | None = None
    time: str | None = None


def level_of(values: Iterable[float | None]) -> Level | None:
    """The level of the values that are known; None where none is."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return Level(statistics.median(known), min(known), max(known), tuple(known)) if known else None
