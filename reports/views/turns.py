"""Points of a sweep that differ in one parameter only, as far as they took turns: separate runs are no comparison."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...analysis.blocks import Block, Interval, compare, over_launches
from .axes import short
from .sweep import SweepPoint, SweepView


@dataclass(frozen=True, slots=True)
class Turns:
    """Value `b` of a parameter less value `a`, by setting of all other varying parameters.

    took_turns  (setting, mean difference of periods [ns] over its launches, with its interval where there are two)
    apart       settings whose two values are separate runs: these differ by more than the parameter
    """

    took_turns: tuple[tuple[str, Interval], ...]
    apart: int


def turning_axes(sweep: SweepView) -> tuple[str, ...]:
    """Parameters whose values took turns, the most frequent first."""
    found = Counter(point.turns for point in sweep.measured if point.blocks and point.turns)
    return tuple(name for name, _ in found.most_common())


def in_turns(sweep: SweepView, parameter: str, a: str, b: str) -> Turns:
    """Settings that have both values."""
    left, right = (_by_rest(sweep, parameter, value) for value in (a, b))
    found: list[tuple[str, Interval]] = []
    apart = 0
    for rest in left:
        if rest not in right:
            continue
        by_launch = compare(_blocks(right[rest], parameter), _blocks(left[rest], parameter))
        interval = over_launches(list(by_launch.values()))
        if interval is None:
            apart += 1
        else:
            found.append((_named(sweep, parameter, rest), interval))
    return Turns(tuple(found), apart)


def _blocks(points: list[SweepPoint], parameter: str) -> dict[int, tuple[Block, ...]]:
    """By launch. Turns that arms of another axis took beside a point say nothing of this one."""
    return {point.repeat: point.blocks for point in points if point.blocks and point.turns == parameter}


def _others(sweep: SweepView, parameter: str) -> list[str]:
    return [name for name in sweep.varying if name != parameter]


def _named(sweep: SweepView, parameter: str, rest: tuple[str, ...]) -> str:
    return ", ".join(f"{short(name)} {value}" for name, value in zip(_others(sweep, parameter), rest, strict=True))


def _by_rest(sweep: SweepView, parameter: str, value: str) -> dict[tuple[str, ...], list[SweepPoint]]:
    """The measured points with this value, by all other varying parameters."""
    groups: dict[tuple[str, ...], list[SweepPoint]] = {}
    for point in sweep.measured:
        if point.value(parameter) == value:
            rest = tuple(point.value(name) for name in _others(sweep, parameter))
            groups.setdefault(rest, []).append(point)
    return groups
