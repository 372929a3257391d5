"""The turns of a sweep's claims, with the series that the claims' figures are made of and no others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from ...analysis.claims.claim import Claim
from ...analysis.claims.points import PERIOD, ClaimPoint, Turn
from ...analysis.claims.registry import CLAIMS
from ...errors import UsageError
from ..axes import dig
from ..point import Point, parameters
from ..store import SweepStore
from ..visits import ROUNDS, in_visits
from .stored import ClaimRun

SIZES = ("num_tokens", "padded_tokens")
"""What figures of padding need beside their series."""


def collect(store: SweepStore) -> ClaimRun:
    """The run in a sweep's folder. Raises UsageError when no point of it belongs to a claim."""
    points = [point for point in store.plan.points if point.spec.claim is not None]
    if not points:
        raise UsageError(f"{store.root}: no point of this sweep belongs to a claim; sweep examples/claims/*.yaml")
    records = {point.key: store.record(point) for point in points}
    done = [record for record in records.values() if record is not None and record["status"] == "ok"]
    first: Mapping[str, Any] = done[0] if done else {}
    best_ns = _best(done)
    return ClaimRun(
        command=f"perf sweep {' '.join(store.plan.sources)}",
        date=f"{date.today():%Y-%m-%d}",
        machine=first.get("environment") or {},
        points=tuple(_point(point, records[point.key], best_ns) for point in points),
        origin=_origin(first),
    )


def _origin(record: Mapping[str, Any]) -> str:
    """What the times are of; empty for a GPU that was measured."""
    if record.get("modelled"):
        return f"modelled: {record.get('calibration')}"
    return "" if record.get("device") in ("cuda", None) else f"measured on {record['device']}: times of a host alone"


def _best(done: Sequence[Mapping[str, Any]]) -> float | None:
    """The gauge of a host at its best: what one turn in twenty of the run comes to; None without gauges."""
    found = sorted(block["gauge_ns"] for record in done for block in record.get("blocks", ()) if "gauge_ns" in block)
    return found[len(found) // 20] if found else None


def _point(point: Point, record: Mapping[str, Any] | None, best_ns: float | None) -> ClaimPoint:
    axis = point.spec.measure.interleave
    name = point.spec.claim
    assert name is not None
    tree = parameters(point.spec)
    arm = str(dig(tree, axis)) if axis else ""
    cell = {path: value for path, value in _cell(point) if path != axis}
    if record is None or record["status"] != "ok":
        reason = "not measured yet" if record is None else str(record["reason"])
        return ClaimPoint(name, cell, arm, point.repeat, reason=reason)
    wanted = series_of(CLAIMS[name]) if name in CLAIMS else {PERIOD}
    turns = tuple(_turn(block, wanted, best_ns) for block in record.get("blocks", ()))
    visit = ROUNDS if in_visits(point.spec.measure) else 0
    return ClaimPoint(name, cell, arm, point.repeat, turns, "" if turns else "its arms did not take turns", visit)


def _turn(block: Mapping[str, Any], wanted: set[str], best_ns: float | None) -> Turn:
    series = {PERIOD: block["periods_ns"], **block.get("series", {})}
    pace = round(block["gauge_ns"] / best_ns, 3) if best_ns and "gauge_ns" in block else None
    return Turn(block["order"], {name: tuple(values) for name, values in series.items() if name in wanted}, pace)


def _cell(point: Point) -> Iterator[tuple[str, Any]]:
    """What the axes chose, and what figures depend on wherever it was said: the regime's settings, and events."""
    measure, settings = point.spec.measure, point.spec.workload.settings
    yield from ((path, value) for path, value in flattened(settings, "workload.settings.") if _plain(value))
    yield "measure.device_events", measure.device_events
    yield from flattened(point.choice)


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def flattened(choice: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """{"workload.settings": {"num_reqs": 64}} -> workload.settings.num_reqs 64."""
    for name, value in choice.items():
        path = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from flattened(value, f"{path}.")
        else:
            yield path, value


def series_of(claim: Claim) -> set[str]:
    """Names of all series that the claim's figures are made of."""
    return {*_series(claim.findings), *_series(claim.premises)}


def _series(value: object) -> Iterator[str]:
    """Every field `series` in a tree of dataclasses and tuples; what compares by size asks for the sizes as well."""
    if isinstance(value, tuple):
        for one in value:
            yield from _series(one)
    elif dataclasses.is_dataclass(value):
        if hasattr(value, "exact"):
            yield from SIZES
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name == "series":
                yield inner
            else:
                yield from _series(inner)
