"""Copies that were asked for asynchronously from or to pageable memory: the call blocks until the data is staged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...instrumentation.sources.arrays import ABSENT, BoolArray, LongArray
from .lacks import Lacks
from .rows import CaptureRows

REASON = "an asynchronous copy of pageable host memory runs synchronously: reuse a pinned buffer"
MOST = 50


@dataclass(frozen=True, slots=True)
class PageableCopy:
    """One such copy: `copy_ns` on the device, `blocked_ns` the host time inside the call."""

    device: str
    rank: int | None
    correlation: int | None
    direction: str
    size_bytes: int | None
    copy_ns: int
    blocked_ns: int
    api: str | None
    step: int | None


@dataclass(frozen=True, slots=True)
class PageableFigures:
    """All such copies in sums, and the ones that blocked longest. The sums are null, with `unsaid`, where there is none
    among the copies that tell all it takes (direction, the host's kind of memory, the call), and others do not.

    unknown_kind     copies between host and device whose host memory the capture does not tell ("Host" of ROCm)
    unknown_call     copies of pageable memory whose call was not recorded: nobody knows how they were asked for
    """

    copies: int | None
    size_bytes: int | None
    copy_ns: int | None
    blocked_ns: int | None
    unknown_kind: int
    unknown_call: int
    longest: tuple[PageableCopy, ...]
    reason: str = REASON
    unsaid: str | None = None


def pageable_figures(rows: CaptureRows, lacks: Lacks) -> PageableFigures:
    """Asynchronous copies of pageable memory, the longest first."""
    copies = rows.copies
    kind = _host_memory(rows)
    pageable, called = kind == "pageable", (copies.enqueue_start != ABSENT) & (lacks.calls is None)
    flagged = np.flatnonzero(pageable & called & copies.is_async)
    unsaid = None if len(flagged) else _unsaid(lacks, kind, called)
    if unsaid is not None:
        unknown = int((kind == "unknown").sum()), int((pageable & ~called).sum())
        return PageableFigures(None, None, None, None, *unknown, (), unsaid=unsaid)
    blocked = copies.enqueue_end[flagged] - copies.enqueue_start[flagged]
    order = np.argsort(-blocked, kind="stable")
    sizes = copies.size_bytes[flagged]
    return PageableFigures(
        copies=len(flagged), size_bytes=int(sizes.sum()) if (sizes != ABSENT).all() else None,
        copy_ns=int(copies.duration[flagged].sum()), blocked_ns=int(blocked.sum()),
        unknown_kind=int((kind == "unknown").sum()), unknown_call=int((pageable & ~called).sum()),
        longest=tuple(_copy(rows, int(flagged[place]), int(blocked[place])) for place in order[:MOST].tolist()),
    )


def _unsaid(lacks: Lacks, kind: npt.NDArray[np.object_], called: BoolArray) -> str | None:
    """Why that none was found does not say that there was none."""
    sided, unknown, pageable = kind != "", kind == "unknown", kind == "pageable"
    if lacks.copies or lacks.directions:
        return lacks.copies or lacks.directions
    if unknown.any():
        return f"{int(unknown.sum())} of {int(sided.sum())} do not tell the host's kind of memory"
    lost = pageable & ~called
    if lost.any():
        return lacks.calls or f"{int(lost.sum())} of {int(sided.sum())} are of pageable memory and tied to no call"
    return None


def _host_memory(rows: CaptureRows) -> npt.NDArray[np.object_]:
    """Kind of the host's side of each copy, "" for copies without one."""
    copies = rows.copies
    source = np.array([*rows.src_kinds, "unknown"], dtype=object)[copies.src_kind]
    target = np.array([*rows.dst_kinds, "unknown"], dtype=object)[copies.dst_kind]
    to_device, back = _is(rows, copies.direction, "h2d"), _is(rows, copies.direction, "d2h")
    nothing = np.full(len(copies), "", dtype=object)
    return np.where(to_device, source, np.where(back, target, nothing))


def _is(rows: CaptureRows, direction: LongArray, text: str) -> BoolArray:
    found = np.array([own in (text, f"unified_{text}") for own in (*rows.directions, "")], dtype=np.bool_)
    return np.asarray(found[direction])


def _copy(rows: CaptureRows, row: int, blocked_ns: int) -> PageableCopy:
    copies = rows.copies
    key = rows.devices[copies.device[row]]
    return PageableCopy(
        key.device, key.rank, plain(copies.correlation[row]), rows.directions[copies.direction[row]],
        plain(copies.size_bytes[row]), int(copies.duration[row]), blocked_ns,
        rows.apis[copies.api[row]] if copies.api[row] >= 0 else None, plain(copies.step[row]),
    )


def plain(value: np.int64) -> int | None:
    """A Python integer; None for ABSENT."""
    return None if value == ABSENT else int(value)
