"""Points of a sweep that differ in one parameter only, as far as they took turns: separate runs are no comparison."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.blocks import Interval, compare, over_launches
from .sweep import SweepPoint, SweepView


@dataclass(frozen=True, slots=True)
class Turns:
    """Value `b` of a parameter less value `a`, by setting of all other varying parameters.

    took_turns  mean difference of periods [ns] a setting, over its launches, with its interval where there are two
    apart       settings whose two values are separate runs: these differ by more than the parameter
    """

    took_turns: tuple[Interval, ...]
    apart: int


def in_turns(sweep: SweepView, parameter: str, a: str, b: str) -> Turns:
    """Settings that have both values."""
    left, right = (_by_rest(sweep, parameter, value) for value in (a, b))
    found: list[Interval] = []
    apart = 0
    for rest in left:
        if rest not in right:
            continue
        blocks = [{point.repeat: point.blocks for point in side if point.blocks} for side in (right[rest], left[rest])]
        interval = over_launches(list(compare(*blocks).values()))
        if interval is None:
            apart += 1
        else:
            found.append(interval)
    return Turns(tuple(found), apart)


def _by_rest(sweep: SweepView, parameter: str, value: str) -> dict[tuple[str, ...], list[SweepPoint]]:
    """The measured points with this value, by all other varying parameters."""
    others = [name for name in sweep.varying if name != parameter]
    groups: dict[tuple[str, ...], list[SweepPoint]] = {}
    for point in sweep.measured:
        if point.value(parameter) == value:
            groups.setdefault(tuple(point.value(name) for name in others), []).append(point)
    return groups
