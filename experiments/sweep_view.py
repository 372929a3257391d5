"""A sweep's folder as the reports see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis.blocks import Block
from ..analysis.queue_delays import without_times_below_zero
from ..errors import UsageError
from ..instrumentation.recording.reader import Recording
from ..reports import SweepPoint, SweepView
from .plan import Point
from .store import SweepStore

MAX_REPRESENTATIVES = 4


def sweep_view(store: SweepStore) -> SweepView:
    """Points in the order of the plan, what was not measured included, and a few recordings for their timelines."""
    points = tuple(_sweep_point(store, point) for point in store.plan.points)
    loaded, unreadable = _representatives(store)
    notes = dict.fromkeys(note for _, recording in loaded for note in recording.meta.configuration.get("notes", []))
    return SweepView(
        name=store.root.absolute().name,
        points=points,
        environment=loaded[0][1].meta.environment if loaded else {},
        notes=(*notes, *unreadable),
        representatives=tuple(loaded),
    )


def _sweep_point(store: SweepStore, point: Point) -> SweepPoint:
    record = store.record(point)
    if record is None:
        damaged = (store.folder(point) / "summary.json").exists()
        found = "its summary.json is damaged; measure it again" if damaged else "not measured yet; go on"
        return SweepPoint(point.key, point.choice, "skipped", f"{found} with --resume", repeat=point.repeat)
    metrics, reasons = without_times_below_zero(record.get("metrics", {}), record.get("reasons", {}))
    return SweepPoint(
        point.key,
        point.choice,
        record["status"],
        _reason(record),
        metrics,
        reasons,
        (record.get("calibration") or "") if record.get("modelled") else "",
        point.repeat,
        turns=point.spec.measure.interleave or "",
        blocks=tuple(Block(block["order"], tuple(block["periods_ns"])) for block in record.get("blocks", [])),
    )


def _reason(record: Mapping[str, Any]) -> str:
    """Its class before its words, where they do not say it themselves."""
    kind = record.get("kind") or ""
    return record["reason"] if kind in ("", "error", "dominated") else f"{kind}: {record['reason']}"


def _representatives(store: SweepStore) -> tuple[list[tuple[str, Recording]], list[str]]:
    """(slug, recording) of the last points of the plan, which differ in what varies last, and notes on unreadable ones.

    In a grid the last points are neighbours under otherwise equal axes.
    """
    loaded: list[tuple[str, Recording]] = []
    unreadable: list[str] = []
    for point in store.done()[-MAX_REPRESENTATIVES:]:
        try:
            loaded.append((point.title, Recording.load(store.folder(point) / "recording")))
        except UsageError as error:  # its figures stand in its summary: the others need not go without their report
            unreadable.append(f"{point.title} is shown without its recording: {error}")
    return loaded, unreadable
