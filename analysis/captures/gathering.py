"""`CaptureRows` from the tables of a capture: Arrow tables as an importer made them, or frames of a Recording."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.sources.arrays import BoolArray, LongArray, filled, grouped
from ...instrumentation.sources.trace import DEVICE_KINDS, HOST_KINDS
from .rows import (
    CaptureRows,
    CopyWork,
    DeviceKey,
    DeviceWork,
    HostWork,
    ProcessKey,
    TableRows,
    Tables,
    absent_where_null,
    processes_of,
    rows_of,
)  # fmt: skip

KIND_KERNEL, KIND_MEMSET, KIND_GRAPH, KIND_COPY = range(4)
_TABLES = ("spans", "copies", "steps", "phases")


def gather(tables: Tables, meta: RecordingMeta) -> CaptureRows:
    """Rows without a start or an end are left out: they are no interval."""
    keys, process = processes_of(tables, _TABLES)
    spans, copies = rows_of(tables["spans"]), rows_of(tables["copies"])
    on_device, kind, host_kind = _kinds(spans)
    timed = _timed(spans)
    where = _Places(meta, keys, spans, copies, process)
    phases = _phase_codes(spans, copies)
    device_rows, host_rows = np.flatnonzero(on_device & timed), np.flatnonzero(~on_device & timed)
    device = DeviceWork(
        **_common(spans, process["spans"], phases[0], device_rows), name=spans.coded("name")[0][device_rows],
        device=where.device["spans"][device_rows], stream=where.lane["spans"][device_rows], kind=kind[device_rows],
    )
    host = HostWork(
        **_common(spans, process["spans"], phases[0], host_rows), name=spans.coded("name")[0][host_rows],
        thread=where.lane["spans"][host_rows], kind=host_kind[host_rows], domain=spans.coded("domain")[0][host_rows],
    )
    copy_work = _copies(copies, process["copies"], phases[1], where)
    return CaptureRows(
        meta=meta, processes=keys, devices=where.devices, threads=where.lanes, streams=where.lanes,
        names=spans.coded("name")[1], domains=spans.coded("domain")[1], phases=phases[2], device=device, host=host,
        copies=copy_work, work=_together(device, copy_work), steps=rows_of(tables["steps"]),
        phase_rows=rows_of(tables["phases"]), step_process=process["steps"], phase_process=process["phases"],
        directions=copies.coded("direction")[1], src_kinds=copies.coded("src_kind")[1],
        dst_kinds=copies.coded("dst_kind")[1], apis=copies.coded("api")[1],
    )


def _together(device: DeviceWork, copies: DeviceWork) -> DeviceWork:
    names = [entry.name for entry in fields(DeviceWork)]
    return DeviceWork(**{name: np.concatenate((getattr(device, name), getattr(copies, name))) for name in names})


def _timed(rows: TableRows) -> BoolArray:
    (_, started), (_, ended) = rows.ints("start_ns"), rows.ints("end_ns")
    return started & ended


def _kinds(spans: TableRows) -> tuple[BoolArray, LongArray, LongArray]:
    """(whether on a device, KIND number there, place in HOST_KINDS else)."""
    codes, texts = spans.coded("kind")
    device = np.array([DEVICE_KINDS.index(text) if text in DEVICE_KINDS else -1 for text in (*texts, "")])
    host = np.array([HOST_KINDS.index(text) if text in HOST_KINDS else -1 for text in (*texts, "")])
    return device[codes] >= 0, device[codes], host[codes]


def _common(rows: TableRows, process: LongArray, phase: LongArray, chosen: LongArray) -> dict[str, LongArray]:
    """Columns that all kinds of work share, of the chosen rows; column by column, to hold few at a time."""
    return {
        "process": process[chosen], "phase": phase[chosen], "start": rows.ints("start_ns")[0][chosen],
        "end": rows.ints("end_ns")[0][chosen],
        "step": absent_where_null(*rows.ints("step"))[chosen],
        "correlation": absent_where_null(*rows.ints("correlation"))[chosen],
    }


def _phase_codes(spans: TableRows, copies: TableRows) -> tuple[LongArray, LongArray, tuple[str, ...]]:
    (a, a_names), (b, b_names) = spans.coded("phase"), copies.coded("phase")
    names = tuple(dict.fromkeys((*a_names, *b_names)))
    first = np.array([*(names.index(name) for name in a_names), -1], dtype=np.int64)
    second = np.array([*(names.index(name) for name in b_names), -1], dtype=np.int64)
    return first[a], second[b], names


def _copies(rows: TableRows, process: LongArray, phase: LongArray, where: _Places) -> CopyWork:
    timed = np.flatnonzero(_timed(rows))
    return CopyWork(
        **_common(rows, process, phase, timed), name=filled(len(timed), -1), device=where.device["copies"][timed],
        stream=where.lane["copies"][timed], kind=filled(len(timed), KIND_COPY),
        direction=rows.coded("direction")[0][timed], src_kind=rows.coded("src_kind")[0][timed],
        dst_kind=rows.coded("dst_kind")[0][timed],
        size_bytes=absent_where_null(*rows.ints("size_bytes"))[timed],
        enqueue_start=absent_where_null(*rows.ints("enqueue_start_ns"))[timed],
        enqueue_end=absent_where_null(*rows.ints("enqueue_end_ns"))[timed], api=rows.coded("api")[0][timed],
        is_async=rows.flags("is_async", null=False)[timed],
    )


class _Places:
    """Numbers for devices and lanes of both tables, by table."""

    def __init__(
        self, meta: RecordingMeta, keys: tuple[ProcessKey, ...], spans: TableRows, copies: TableRows,
        process: dict[str, LongArray],
    ) -> None:  # fmt: skip
        device, device_names = _both(spans, copies, "device")
        lane, lane_names = _both(spans, copies, "lane")
        owner = np.concatenate((process["spans"], process["copies"]))
        ranked = meta.source == "kineto"
        group, first = grouped(owner if ranked else np.zeros_like(owner), device)
        found = [
            DeviceKey(device_names[device[row]] or "unknown", keys[owner[row]].rank if ranked else None)
            for row in first.tolist()
        ]
        order = sorted(range(len(found)), key=lambda place: found[place].order)
        self.devices = tuple(found[place] for place in order)
        group = np.argsort(np.array(order, dtype=np.int64))[group]
        lanes, first_lane = grouped(owner, device, lane)
        self.lanes = tuple(lane_names[lane[row]] or "unknown" for row in first_lane.tolist())
        split = len(process["spans"])
        self.device = {"spans": group[:split], "copies": group[split:]}
        self.lane = {"spans": lanes[:split], "copies": lanes[split:]}


def _both(spans: TableRows, copies: TableRows, column: str) -> tuple[LongArray, tuple[str | None, ...]]:
    """One numbering of a text column of both tables; the last name is None, for null."""
    (a, a_names), (b, b_names) = spans.coded(column), copies.coded(column)
    names: tuple[str | None, ...] = (*dict.fromkeys((*a_names, *b_names)), None)
    first = np.array([*(names.index(name) for name in a_names), len(names) - 1], dtype=np.int64)
    second = np.array([*(names.index(name) for name in b_names), len(names) - 1], dtype=np.int64)
    return np.concatenate((first[a], second[b])), names
