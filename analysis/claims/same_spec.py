"""Which runs of a claim are of the same spec: a spec is changed from time to time, and runs of both are no repetition.

Told by what is kept of a run: cells and arms, and of each the turns that a launch took and the steps of a turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .points import ClaimPoint

Size = tuple[int, int]
"""Turns of the launch that has most, and values of the longest series; (0, 0): no launch was measured."""
Shape = Mapping[tuple[str, str], Size]
"""(cell, arm) -> size."""


def shape_of(points: Sequence[ClaimPoint]) -> Shape:
    """Of one claim's points of one run."""
    found: dict[tuple[str, str], Size] = {}
    for point in points:
        key = json.dumps(dict(point.cell), sort_keys=True), point.arm
        lengths = [len(values) for turn in point.turns for values in turn.series.values()]
        before = found.get(key, (0, 0))
        found[key] = max(before[0], len(point.turns)), max(before[1], *lengths, 0)
    return found


def same_shape(one: Shape, two: Shape) -> bool:
    """Whether cells and arms are the same, and turns and steps where both have some."""
    if one.keys() != two.keys():
        return False
    sizes = [(one[key], two[key]) for key in one]
    return all(mine == other for mine, other in sizes if mine != (0, 0) and other != (0, 0))


def of_last_spec(runs: Sequence[Sequence[ClaimPoint]]) -> tuple[list[int], list[int]]:
    """Numbers of the runs of one claim whose spec is that of the last run that has the claim, and of those with
    another one; a run without the claim is in neither.
    """
    shapes = {number: shape_of(points) for number, points in enumerate(runs) if points}
    if not shapes:
        return [], []
    last = shapes[max(shapes)]
    present = [number for number, shape in shapes.items() if same_shape(shape, last)]
    return present, [number for number in shapes if number not in present]
