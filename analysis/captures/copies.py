"""Copies of each device by direction and kinds of memory, and what the copies to the device were hidden under."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, BoolArray, LongArray, grouped, members, rows_by
from ...instrumentation.sources.trace import OP, RANGE
from ..intervals import intervals, length, merge, overlap
from .gathering import KIND_GRAPH, KIND_KERNEL
from .rows import CaptureRows

TO_DEVICE = "h2d"


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """Copies of one direction between two kinds of memory ("unknown" where they do not tell). `size_bytes` is null
    where one copy does not tell its size; `hidden_under_kernels_ns` is the part of their union that lies under kernels
    of the device."""

    device: str
    rank: int | None
    direction: str
    src_kind: str
    dst_kind: str
    copies: int
    size_bytes: int | None
    sum_ns: int
    union_ns: int
    hidden_under_kernels_ns: int | None


@dataclass(frozen=True, slots=True)
class HiddenFigures:
    """The union of a device's copies to it (h2d), and under what it lies.

    under_index_building_ns   under ranges in which the host builds indices; null where no such range was recorded
    under_anything_ns         under kernels or those ranges
    exposed_ns                null: which operation reads what was copied stands in no capture
    """

    device: str
    rank: int | None
    copies: int
    size_bytes: int | None
    union_ns: int
    under_kernels_ns: int | None
    under_index_building_ns: int | None
    under_anything_ns: int | None
    exposed_ns: int | None
    exposed_reason: str


def copy_figures(rows: CaptureRows, unseen: str | None = None) -> tuple[CopyFigures, ...]:
    """A row a device, direction and pair of memories, the longest total first within a device. Where kernels ran that
    stand in no row (`unseen`), what was hidden under them is null."""
    copies = rows.copies
    if not len(copies):
        return ()
    kernels = _kernels(rows)
    group, _ = grouped(copies.device, copies.direction, copies.src_kind, copies.dst_kind)
    found = []
    for chosen in members(group):
        row = chosen[0]
        key = rows.devices[copies.device[row]]
        spans = copies.intervals[chosen]
        found.append(
            CopyFigures(
                device=key.device, rank=key.rank, direction=_text(rows.directions, copies.direction[row]),
                src_kind=_text(rows.src_kinds, copies.src_kind[row]),
                dst_kind=_text(rows.dst_kinds, copies.dst_kind[row]), copies=len(chosen),
                size_bytes=total_bytes(copies.size_bytes[chosen]), sum_ns=int(spans[:, 1].sum() - spans[:, 0].sum()),
                union_ns=length(spans),
                hidden_under_kernels_ns=(
                    overlap(spans, kernels.get(int(copies.device[row]), _NOTHING)) if unseen is None else None
                ),
            )
        )
    return tuple(sorted(found, key=lambda own: (own.rank or 0, own.device, -own.sum_ns)))


def hidden_figures(rows: CaptureRows, unseen: str | None = None) -> tuple[HiddenFigures, ...]:
    """A row a device that copies reached; `unseen` as in `copy_figures`. No rows where no copy tells its direction."""
    copies = rows.copies
    to_device = np.flatnonzero(copies.direction == _code(rows.directions, TO_DEVICE))
    kernels, building = _kernels(rows), _IndexBuilding(rows)
    found = []
    for own in members(copies.device[to_device]):
        chosen = to_device[own]
        place = int(copies.device[chosen[0]])
        ranges = building.of(np.unique(copies.process[chosen]))
        found.append(_hidden(rows, chosen, kernels.get(place, _NOTHING), ranges, unseen))
    return tuple(found)


def _hidden(
    rows: CaptureRows, chosen: LongArray, kernels: LongArray, building: LongArray | None, unseen: str | None
) -> HiddenFigures:
    copies = rows.copies
    key, spans = rows.devices[copies.device[chosen[0]]], merge(copies.intervals[chosen])
    under_host = None if building is None else overlap(spans, building)
    anything = None
    if building is not None and unseen is None:
        anything = overlap(spans, np.concatenate((kernels, building)))
    return HiddenFigures(
        device=key.device, rank=key.rank, copies=len(chosen), size_bytes=total_bytes(copies.size_bytes[chosen]),
        union_ns=length(spans), under_kernels_ns=overlap(spans, kernels) if unseen is None else None,
        under_index_building_ns=under_host,
        under_anything_ns=anything, exposed_ns=None,
        exposed_reason="a capture does not record which operation reads what a copy brought",
    )


_NOTHING = intervals([])


def _kernels(rows: CaptureRows) -> dict[int, LongArray]:
    """When each device ran kernels or graphs, by its place."""
    device = rows.device
    running = np.flatnonzero((device.kind == KIND_KERNEL) | (device.kind == KIND_GRAPH))
    spans = device.intervals
    return {place: merge(spans[running[own]]) for place, own in rows_by(device.device[running]).items()}


class _IndexBuilding:
    """When hosts were in ranges that build indices."""

    def __init__(self, rows: CaptureRows) -> None:
        wanted = set(rows.meta.configuration.get("index_building", ()))
        names = np.array([name in wanted for name in (*rows.names, "")], dtype=np.bool_)
        host = rows.host
        chosen = np.flatnonzero(names[host.name] & ((host.kind == RANGE) | (host.kind == OP)))
        self._process, self._spans = host.process[chosen], host.intervals[chosen]

    def of(self, processes: LongArray) -> LongArray | None:
        """The union of those of some processes; None where they have no such range."""
        chosen = np.isin(self._process, processes)
        return merge(self._spans[chosen]) if chosen.any() else None


def total_bytes(sizes: LongArray) -> int | None:
    """Sum; None where a size is null."""
    known: BoolArray = sizes != ABSENT
    return int(sizes.sum()) if known.all() else None


def _text(texts: tuple[str, ...], code: np.int64) -> str:
    return texts[int(code)] if code >= 0 else "unknown"


def _code(texts: tuple[str, ...], text: str) -> int:
    return texts.index(text) if text in texts else -2
