"""Device operations of one process: kernels, graphs, memsets and copies, each tied to the call that enqueued it.

Lifetimes: arrays are in enqueue order and belong to the process's tables; nothing here is written to afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .tables import BoolArray, LongArray, Process, first_by, flags, ints, matches, texts

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
    left_out     operations that cannot be replayed: without an enqueueing call or without device times
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
        return {int(value): place for place, value in enumerate(self.correlation)}


COLUMNS = (
    "correlation", "lane", "kind", "buffer", "copy_row", "step",
    "call_ns", "enqueued_ns", "start_ns", "end_ns", "err_ns", "pageable", "blocking", "usable",
)


def operations(process: Process) -> Operations:
    """Gather the process's device operations; see `Operations`. Several spans of one correlation are one operation."""
    copies = _copies(process.table("copies"))
    kernels = _kernels(process.table("spans"))
    if len(copies):
        kernels = kernels[~kernels["correlation"].isin(copies["correlation"])]
    joined = pd.concat([part for part in (copies, kernels) if len(part)] or [copies], ignore_index=True)
    usable = joined["usable"].to_numpy(dtype=np.bool_)
    kept = joined[usable].sort_values(["enqueued_ns", "call_ns", "correlation"], kind="stable")
    column = {name: kept[name].to_numpy(dtype=np.int64) for name in COLUMNS if _is_number(name)}
    return Operations(
        correlation=column["correlation"], lane=list(kept["lane"]), kind=list(kept["kind"]),
        buffer=[value if isinstance(value, str) else None for value in kept["buffer"]],
        copy_row=column["copy_row"], step=column["step"], phase=phases_at(process, column["call_ns"]),
        call_ns=column["call_ns"], enqueued_ns=column["enqueued_ns"], start_ns=column["start_ns"],
        end_ns=column["end_ns"], err_ns=column["err_ns"],
        pageable=kept["pageable"].to_numpy(dtype=np.bool_),
        blocking=kept["blocking"].to_numpy(dtype=np.bool_), left_out=int((~usable).sum()),
    )


def _is_number(name: str) -> bool:
    return name.endswith("_ns") or name in ("correlation", "copy_row", "step")


def _copies(copies: pd.DataFrame) -> pd.DataFrame:
    correlation, known = ints(copies, "correlation")
    call, has_call = ints(copies, "enqueue_start_ns")
    enqueued, has_enqueued = ints(copies, "enqueue_end_ns")
    start, has_start = ints(copies, "start_ns")
    end, has_end = ints(copies, "end_ns")
    step, in_step = ints(copies, "step")
    pageable = matches(copies, "src_kind", "pageable") | matches(copies, "dst_kind", "pageable")
    synchronous = pageable | ~flags(copies, "is_async", null=True)
    lanes = texts(copies, "lane")
    return pd.DataFrame({
        "correlation": correlation, "lane": [lane or "gpu:unknown" for lane in lanes],
        "kind": ["copy"] * len(copies), "buffer": texts(copies, "buffer"),
        "copy_row": np.arange(len(copies), dtype=np.int64), "step": np.where(in_step, step, -1),
        "call_ns": np.where(has_call, call, enqueued), "enqueued_ns": enqueued, "start_ns": start, "end_ns": end,
        "err_ns": ints(copies, "err_ns")[0], "pageable": pageable, "blocking": synchronous & (start < enqueued),
        "usable": known & has_enqueued & has_start & has_end,
    })


def _kernels(spans: pd.DataFrame) -> pd.DataFrame:
    """Kernels, graphs and memsets with their launches. A graph's kernels share its correlation and become one entry."""
    if not len(spans):
        return pd.DataFrame({name: [] for name in COLUMNS})
    lanes = spans["lane"].astype("string")
    on_device = lanes.str.startswith("gpu:").fillna(False).to_numpy(dtype=np.bool_)
    ops = _merged(spans[on_device & matches(spans, "kind", *DEVICE_KINDS)])
    launches = spans[~on_device & matches(spans, "kind", "launch")]
    keys, known = ints(launches, "correlation")
    call, has_call = ints(launches, "start_ns")
    enqueued, has_enqueued = ints(launches, "end_ns")
    row = first_by(keys, known & has_call & has_enqueued, ops["correlation"].to_numpy(dtype=np.int64))
    found = row >= 0
    safe = np.where(found, row, 0)
    ops["call_ns"] = np.where(found, call[safe], 0) if len(call) else 0
    ops["enqueued_ns"] = np.where(found, enqueued[safe], 0) if len(call) else 0
    ops["usable"] = ops["usable"].to_numpy(dtype=np.bool_) & found
    return ops


def _merged(rows: pd.DataFrame) -> pd.DataFrame:
    correlation, known = ints(rows, "correlation")
    start, has_start = ints(rows, "start_ns")
    end, has_end = ints(rows, "end_ns")
    step, in_step = ints(rows, "step")
    ops = pd.DataFrame({
        "correlation": correlation, "lane": texts(rows, "lane"), "kind": texts(rows, "kind"), "buffer": None,
        "copy_row": np.full(len(rows), -1, dtype=np.int64), "step": np.where(in_step, step, -1),
        "start_ns": start, "end_ns": end, "err_ns": ints(rows, "err_ns")[0],
        "pageable": np.zeros(len(rows), dtype=np.bool_), "blocking": np.zeros(len(rows), dtype=np.bool_),
        "usable": known & has_start & has_end,
    })
    if not ops["correlation"].duplicated().any():
        return ops
    first = dict.fromkeys(("lane", "kind", "copy_row", "step", "pageable", "blocking"), "first")
    groups = ops.groupby("correlation", sort=False)
    merged = groups.agg({**first, "start_ns": "min", "end_ns": "max", "err_ns": "max", "usable": "all"}).reset_index()
    merged["buffer"] = None
    return merged


def phases_at(process: Process, times_ns: LongArray) -> list[str | None]:
    """The host phase that is open at each time; None between phases. At a common border the later phase counts."""
    spans = process.table("spans")
    rows = spans[matches(spans, "kind", "phase")]
    start, has_start = ints(rows, "start_ns")
    end, has_end = ints(rows, "end_ns")
    whole = has_start & has_end
    order = np.argsort(start[whole], kind="stable")
    starts, ends = start[whole][order], end[whole][order]
    if not len(starts):
        return [None] * len(times_ns)
    names = np.array(texts(rows, "name"), dtype=object)[whole][order]
    place = np.searchsorted(starts, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= ends[np.maximum(place, 0)])
    return [names[at] if within else None for at, within in zip(place, inside, strict=True)]


def forward_rows(ops: Operations) -> BoolArray:
    """Operations that the host enqueued in the phase `forward` of a step, copies left out."""
    named = np.array([phase == "forward" for phase in ops.phase], dtype=np.bool_)
    return named & (ops.copy_row < 0) & (ops.step >= 0)
