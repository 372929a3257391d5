"""Device operations of one process: kernels, graphs, memsets and copies, each tied to the call that enqueued it.

Lifetimes: arrays are in enqueue order and belong to the process's tables; nothing here is written to afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import BoolArray, Columns, LongArray
from .placement import Queued, place, wait_returns
from .tables import Process, first_by

DEVICE_KINDS = ("kernel", "graph", "memset")


@dataclass(frozen=True, slots=True)
class Operations:
    """Parallel arrays, one entry an operation, in the order in which the host enqueued them. Times in ns, absolute.

    correlation  its id
    lane         queue, `gpu:<stream>`
    kind         kernel, graph, memset or copy
    buffer       the buffer of a copy, else None
    copy_row     row position in the process's `copies` table, -1 for other operations
    step         step that it belongs to, -1 outside steps
    phase        host phase in which it was enqueued, None outside phases
    call_ns      start of the enqueueing call;  enqueued_ns  its end
    start_ns, end_ns, err_ns   on the device
    pageable     copy from or to pageable memory
    blocking     the copy ran, at least in part, inside its own call (pageable memory is fed by the host): the call's
                 return is tied to the copy's end, and a faster copy would have returned earlier
    placed       it carries no device times: it lies where its neighbours leave room (`placement`)
    left_out     operations that cannot be replayed: without an enqueueing call, or without device times and neighbours
    """

    correlation: LongArray
    lane: list[str]
    kind: list[str]
    buffer: list[str | None]
    copy_row: LongArray
    step: LongArray
    phase: list[str | None]
    call_ns: LongArray
    enqueued_ns: LongArray
    start_ns: LongArray
    end_ns: LongArray
    err_ns: LongArray
    pageable: BoolArray
    blocking: BoolArray
    placed: BoolArray
    left_out: int

    def __len__(self) -> int:
        return len(self.correlation)

    @property
    def latency_group(self) -> list[str]:
        """What its launch latency has in common with others: its kind, copies of pageable memory apart."""
        slow = np.where(self.blocking, "blocking", np.where(self.pageable, "pageable", ""))
        return [apart or kind for kind, apart in zip(self.kind, slow.tolist(), strict=True)]

    def index(self) -> dict[int, int]:
        """correlation -> position."""
        return {value: place for place, value in enumerate(self.correlation.tolist())}


Parts = dict[str, Any]
"""The arrays of `Operations` by name, texts as objects, `timed` and `usable` (tied to a call)."""


def operations(process: Process) -> Operations:
    """Gather the process's device operations; see `Operations`. Several spans of one correlation are one operation."""
    copies, kernels = _copies(process.rows("copies")), _kernels(process.rows("spans"))
    apart = ~np.isin(kernels["correlation"], copies["correlation"])
    joined = {name: np.concatenate((copies[name], kernels[name][apart])) for name in copies}
    usable = joined.pop("usable")
    found = {name: values[usable] for name, values in joined.items()}
    order = np.lexsort((found["correlation"], found["call_ns"], found["enqueued_ns"]))
    column = _placed(process, {name: values[order] for name, values in found.items()})
    words = {name: column.pop(name).tolist() for name in ("lane", "kind", "buffer")}
    phase = phases_at(process, column["call_ns"])
    return Operations(**column, **words, phase=phase, left_out=len(usable) - len(phase))


def _placed(process: Process, ops: Parts) -> Parts:
    """The operations that have device times, and those without that their neighbours leave a place for."""
    timed = ops.pop("timed")
    ops["placed"] = np.zeros(len(timed), dtype=np.bool_)
    if timed.all():
        return ops
    queued = Queued(
        ops["lane"].tolist(), ops["correlation"], ops["enqueued_ns"], ops["start_ns"], ops["end_ns"], timed,
        _awaited_ends(process, ops, timed),
    )
    for at, (start, end) in place(queued, wait_returns(process)).items():
        ops["start_ns"][at], ops["end_ns"][at], ops["placed"][at] = start, end, True
    return {name: values[timed | ops["placed"]] for name, values in ops.items()}


def _awaited_ends(process: Process, ops: Parts, timed: BoolArray) -> LongArray:
    """See `Queued.awaited_ns`."""
    edges = process.rows("edges")
    edges = edges[edges.matches("kind", "event")]
    waiting, has_waiting = edges.ints("waiting")
    awaited, has_awaited = edges.ints("awaited")
    known = has_waiting & has_awaited
    everyone = np.ones(len(timed), dtype=np.bool_)
    waiter = first_by(ops["correlation"], everyone, waiting[known])
    before = first_by(ops["correlation"], timed, awaited[known])
    ends: LongArray = np.zeros(len(timed), dtype=np.int64)
    found = (waiter >= 0) & (before >= 0)
    np.maximum.at(ends, waiter[found], ops["end_ns"][before[found]])
    return ends


def _copies(copies: Columns) -> Parts:
    correlation, known = copies.ints("correlation")
    call, has_call = copies.ints("enqueue_start_ns")
    enqueued, has_enqueued = copies.ints("enqueue_end_ns")
    start, has_start = copies.ints("start_ns")
    end, has_end = copies.ints("end_ns")
    step, in_step = copies.ints("step")
    pageable = copies.matches("src_kind", "pageable") | copies.matches("dst_kind", "pageable")
    synchronous = pageable | ~copies.flags("is_async", null=True)
    timed = has_start & has_end
    return {
        "correlation": correlation, "lane": _objects([lane or "gpu:unknown" for lane in copies.texts("lane")]),
        "kind": np.full(len(copies), "copy", dtype=object), "buffer": _objects(copies.texts("buffer")),
        "copy_row": np.arange(len(copies), dtype=np.int64), "step": np.where(in_step, step, -1),
        "call_ns": np.where(has_call, call, enqueued), "enqueued_ns": enqueued, "start_ns": start, "end_ns": end,
        "err_ns": copies.ints("err_ns")[0], "pageable": pageable, "blocking": synchronous & timed & (start < enqueued),
        "timed": timed, "usable": known & has_enqueued,
    }


def _objects(texts: Sequence[str | None]) -> npt.NDArray[Any]:
    return np.array(texts, dtype=object)


def _kernels(spans: Columns) -> Parts:
    """Kernels, graphs and memsets with their launches. A graph's kernels share its correlation and become one entry."""
    on_device = spans.matches("lane", *(lane for lane in spans.coded("lane")[1] if lane.startswith("gpu:")))
    ops = _merged(spans[on_device & spans.matches("kind", *DEVICE_KINDS)])
    launches = spans[~on_device & spans.matches("kind", "launch")]
    keys, known = launches.ints("correlation")
    call, has_call = launches.ints("start_ns")
    enqueued, has_enqueued = launches.ints("end_ns")
    row = first_by(keys, known & has_call & has_enqueued, ops["correlation"])
    found = row >= 0
    for name, values in (("call_ns", call), ("enqueued_ns", enqueued)):
        ops[name] = np.zeros(len(row), dtype=np.int64)
        ops[name][found] = values[row[found]]
    ops["usable"] &= found
    return ops


def _merged(rows: Columns) -> Parts:
    """The spans, those of one correlation as one from the first start to the last end; all of them must be whole."""
    correlation, known = rows.ints("correlation")
    start, has_start = rows.ints("start_ns")
    end, has_end = rows.ints("end_ns")
    step, in_step = rows.ints("step")
    usable = known & has_start & has_end
    first, place = _by_first(correlation)
    merged = {"start_ns": start[first], "end_ns": end[first], "err_ns": rows.ints("err_ns")[0][first]}
    whole = usable[first]
    if len(first) < len(correlation):
        np.minimum.at(merged["start_ns"], place, start)
        np.maximum.at(merged["end_ns"], place, end)
        np.maximum.at(merged["err_ns"], place, rows.ints("err_ns")[0])
        np.logical_and.at(whole, place, usable)
    nothing = np.zeros(len(first), dtype=np.bool_)
    return {
        **merged, "correlation": correlation[first], "lane": _objects(rows.texts("lane"))[first],
        "kind": _objects(rows.texts("kind"))[first], "buffer": np.full(len(first), None, dtype=object),
        "copy_row": np.full(len(first), -1, dtype=np.int64), "step": np.where(in_step, step, -1)[first],
        "pageable": nothing, "blocking": nothing, "timed": np.ones(len(first), dtype=np.bool_), "usable": whole,
    }


def _by_first(keys: LongArray) -> tuple[LongArray, LongArray]:
    """Rows where a key occurs first, in order, and for each row the position of its key among those."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    return first[order], rank[place.reshape(-1)]


def phases_at(process: Process, times_ns: LongArray) -> list[str | None]:
    """The host phase that is open at each time; None between phases. At a common border the later phase counts."""
    spans = process.rows("spans")
    rows = spans[spans.matches("kind", "phase")]
    start, has_start = rows.ints("start_ns")
    end, has_end = rows.ints("end_ns")
    whole = has_start & has_end
    order = np.argsort(start[whole], kind="stable")
    starts, ends = start[whole][order], end[whole][order]
    if not len(starts):
        return [None] * len(times_ns)
    names = _objects(rows.texts("name"))[whole][order]
    place = np.searchsorted(starts, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= ends[np.maximum(place, 0)])
    found: list[str | None] = np.where(inside, names[place], _objects([None])).tolist()
    return found


def forward_rows(ops: Operations) -> BoolArray:
    """Operations that the host enqueued in the phase `forward` of a step, copies left out."""
    named = np.array([phase == "forward" for phase in ops.phase], dtype=np.bool_)
    return named & (ops.copy_row < 0) & (ops.step >= 0)
