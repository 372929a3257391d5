"""Which points of a sweep are measured together in one process, and that process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence

from .interrupt import Interrupt
from .plan import Point, parameters
from .store import PointResult, SweepStore


def launches(points: Sequence[Point]) -> list[list[Point]]:
    """Points by launch, in order: those that differ in nothing but the axis `measure.interleave`, else one each."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(_launch(point), []).append(point)
    return list(groups.values())


def _launch(point: Point) -> str:
    axis = point.spec.measure.interleave
    if axis is None:
        return point.id
    tree = parameters(point.spec)
    *parents, last = axis.split(".")
    below = tree
    for name in parents:
        below = below[name]
    below[last] = None
    return json.dumps([tree, point.repeat], sort_keys=True)


def run_launch(store: SweepStore, points: Sequence[Point], interrupt: Interrupt) -> list[PointResult | None]:
    """Measure the points side by side in a new process; None for each when Ctrl-C came first.

    The process gets Ctrl-C itself, as a member of our group, and keeps nothing. What it wrote to stderr last is the
    reason of points that it did not store.
    """
    started = time.perf_counter()
    package = __package__ or "stepscope.experiments"
    command = [sys.executable, "-m", f"{package}.interleaved", str(store.root), *(point.id for point in points)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    _, said = child.communicate()
    if interrupt.requested or child.returncode == 130:
        return [None for _ in points]
    wall_s = time.perf_counter() - started
    lines = [line for line in said.splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else f"the process of the launch ended with {child.returncode}"
    return [_result(store, point, reason, wall_s) for point in points]


def _result(store: SweepStore, point: Point, reason: str, wall_s: float) -> PointResult:
    if store.status(point) == "ok":
        return PointResult(point, "ok", wall_s=wall_s)
    result = PointResult(point, "failed", reason, wall_s)
    store.finish(store.begin(point), result, {"parameters": parameters(point.spec)})
    return result
