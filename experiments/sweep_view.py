"""A sweep's folder as the reports see it."""

from __future__ import annotations

import json
from typing import Any

from ..errors import UsageError
from ..instrumentation.recording.reader import Recording
from ..reports import SweepPoint, SweepView
from .loading import read_text
from .plan import Point
from .store import SweepStore

MAX_REPRESENTATIVES = 4


def sweep_view(store: SweepStore) -> SweepView:
    """Points in the order of the plan, what was not measured included, and a few recordings for their timelines."""
    records = {point.id: _record(store, point) for point in store.plan.points}
    points = tuple(_sweep_point(point, records[point.id]) for point in store.plan.points)
    chosen = _representatives([point for point in store.plan.points if records[point.id].get("status") == "ok"])
    loaded = [(point.slug, Recording.load(store.folder(point) / "recording")) for point in chosen]
    notes = dict.fromkeys(note for _, recording in loaded for note in recording.meta.configuration.get("notes", []))
    return SweepView(
        name=store.root.absolute().name,
        points=points,
        environment=loaded[0][1].meta.environment if loaded else {},
        notes=tuple(notes),
        representatives=tuple(loaded),
    )


def _record(store: SweepStore, point: Point) -> dict[str, Any]:
    path = store.folder(point) / "summary.json"
    if not path.exists():
        return {}
    try:
        record = json.loads(read_text(path))
    except ValueError as error:
        raise UsageError(f"{path}: is not JSON ({error}); measure the point again with --resume") from error
    return record if isinstance(record, dict) else {}


def _sweep_point(point: Point, record: dict[str, Any]) -> SweepPoint:
    if not record:
        return SweepPoint(
            point.id, point.choice, "skipped", "not measured yet; go on with --resume", repeat=point.repeat
        )
    return SweepPoint(
        point.id,
        point.choice,
        record["status"],
        record["reason"],
        record.get("metrics", {}),
        record.get("reasons", {}),
        (record.get("calibration") or "") if record.get("modelled") else "",
        point.repeat,
    )


def _representatives(points: list[Point]) -> list[Point]:
    """The last points of the plan that differ in what varies last: in a grid, neighbours under otherwise equal axes."""
    return points[-MAX_REPRESENTATIVES:]
