"""Which points of a sweep are measured together in one process, and which may follow one another in one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from .point import Point, parameters
from .workers.task import Task


def launches(points: Sequence[Point]) -> list[list[Point]]:
    """Points by launch, in order: those that differ in nothing but the axis `measure.interleave`, else one each."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(_launch(point), []).append(point)
    return list(groups.values())


def _launch(point: Point) -> str:
    axis = point.spec.measure.interleave
    if axis is None:
        return point.key
    tree = parameters(point.spec)
    *parents, last = axis.split(".")
    below = tree
    for name in parents:
        below = below[name]
    below[last] = None
    return json.dumps([tree, point.repeat], sort_keys=True)


def tasks(points: Sequence[Point], *, timeout_s: float | None = None) -> list[Task]:
    """The tasks of a sweep, in order. An interleaved launch has a process of its own, unless it is resident."""
    return [
        Task(number, tuple(group), _process(group[0]), _alone(group[0]), timeout_s)
        for number, group in enumerate(launches(points))
    ]


def num_resident(points: Sequence[Point]) -> int:
    """Processes that live side by side: one for each launch of the points that ask for it; 0 where none does."""
    return max((point.spec.measure.repeats for point in points if point.spec.measure.resident), default=0)


def _alone(point: Point) -> bool:
    return point.spec.measure.interleave is not None and not point.spec.measure.resident


def _process(point: Point) -> str:
    """What points have in common that may be measured in one process: all that takes long to set up.

    The launches of one point never share one: that they do not is what they are for.
    """
    spec, runner = point.spec, point.spec.runner
    if spec.measure.resident:
        return f"launch-{point.repeat}"
    common = [spec.device, spec.calibration, spec.cost_model, runner.model, runner.model_seed, point.repeat]
    return hashlib.sha256(json.dumps(common).encode()).hexdigest()[:12]
