"""What figures would need and a capture does not hold: the reason, once, for every figure that rests on it.

A re-cut export may have calls whose names it lacks, or kernels without the ids that tie them to calls. What would be
counted as 0 from that is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...instrumentation.sources.arrays import ABSENT, BoolArray, LongArray
from ...instrumentation.sources.calls import NO_NAME, Call, call_of
from ...instrumentation.sources.trace import LAUNCH, OVERHEAD, RANGE
from .gathering import KIND_COPY, KIND_GRAPH, KIND_KERNEL, KIND_MEMSET
from .launches import Launches
from .rows import CaptureRows

NO_CALLS = "the capture has no calls of CUDA"
NAMELESS = ("", "[kernel without a name]")
_CAPTURES = {
    "cudaStreamBeginCapture": 1, "cuStreamBeginCapture": 1, "cudaStreamEndCapture": -1, "cuStreamEndCapture": -1,
}  # fmt: skip
_UNKNOWN_THREAD = "host:unknown"


@dataclass(frozen=True, slots=True)
class Lacks:
    """Reasons; None where nothing is lacking.

    calls          what calls did: which launched a graph, which waited
    kernel_calls   which calls launched the kernels; memset_calls, replay_calls and copy_calls likewise
    places         which calls lie in which range
    kernel_names   which kernels communicate
    kernels        whether there were kernels outside graphs; replays (of graphs), copies and memsets likewise
    sizes          how much the copies brought
    directions     which copies reached a device
    overhead       when the profiler itself was at work
    """

    calls: str | None
    kernel_calls: str | None
    replay_calls: str | None
    memset_calls: str | None
    copy_calls: str | None
    places: str | None
    kernel_names: str | None
    kernels: str | None
    replays: str | None
    copies: str | None
    memsets: str | None
    sizes: str | None
    directions: str | None
    overhead: str | None

    @property
    def items(self) -> str | None:
        """Why waits like .item() cannot be told: small copies back come before them."""
        return self.copies or self.copy_calls or self.directions or self.sizes

    @property
    def work_calls(self) -> str | None:
        """Why nobody can say all that a call, a range or a step launched."""
        return self.kernel_calls or self.replay_calls or self.copy_calls or self.memset_calls


def lacks_of(rows: CaptureRows, launches: Launches) -> Lacks:
    """Looks at the rows: a column that is absent and one that is null throughout are the same."""
    calls = _calls(rows, launches)
    kernel, replay, memset, copy = (
        _untied(rows, launches.call[rows.work.kind == kind] >= 0, what)
        for kind, what in ((KIND_KERNEL, "kernels"), (KIND_GRAPH, "graph replays"), (KIND_MEMSET, "memsets"),
                           (KIND_COPY, "copies"))
    )  # fmt: skip
    return Lacks(
        calls=calls, kernel_calls=kernel, replay_calls=replay, memset_calls=memset, copy_calls=copy,
        places=_places(rows, launches), kernel_names=_kernel_names(rows),
        kernels=_no_kernels(rows, launches), replays=_no_replays(rows, launches),
        copies=_none_of(rows, launches, "copies", calls), memsets=_none_of(rows, launches, "memsets", calls),
        sizes=_sizes(rows),
        directions=_directions(rows),
        overhead=None if (rows.host.kind == OVERHEAD).any() else "the capture has no rows of the profiler's own work",
    )


def nameless_calls(rows: CaptureRows, launches: Launches) -> int:
    """Calls of which nobody knows what they did."""
    nameless = np.array([name in ("", NO_NAME) for name in (*rows.names, "")], dtype=np.bool_)
    return int(nameless[rows.host.name[launches.is_call]].sum())


def _calls(rows: CaptureRows, launches: Launches) -> str | None:
    calls = int(launches.is_call.sum())
    if not calls:
        return NO_CALLS
    return f"none of its {calls} calls has a name" if nameless_calls(rows, launches) == calls else None


def _untied(rows: CaptureRows, tied: BoolArray, what: str) -> str | None:
    if tied.any() or not len(tied):
        return None
    return NO_CALLS if "calls" in rows.absent else f"none of its {len(tied)} {what} is tied to a call"


def _places(rows: CaptureRows, launches: Launches) -> str | None:
    """Calls and ranges whose threads are not known lie nowhere."""
    unknown = np.array([thread == _UNKNOWN_THREAD for thread in (*rows.threads, "")], dtype=np.bool_)
    for what, chosen in (("calls", launches.is_call), ("ranges", rows.host.kind == RANGE)):
        if chosen.any() and unknown[rows.host.thread[chosen]].all():
            return f"its {what} do not tell their threads"
    return None


def _kernel_names(rows: CaptureRows) -> str | None:
    kernels = rows.device.name[rows.device.kind == KIND_KERNEL]
    nameless = np.array([name in NAMELESS for name in (*rows.names, "")], dtype=np.bool_)
    return "its kernels have no names" if len(kernels) and nameless[kernels].all() else None


def _no_kernels(rows: CaptureRows, launches: Launches) -> str | None:
    """Calls that launched kernels, and none is there; replays of graphs may be."""
    if not len(rows.work) or (rows.device.kind == KIND_KERNEL).any():
        return None
    asked = len(asking_calls(rows, launches, "kernels"))
    return f"{asked} calls launched kernels and no kernel is in the capture" if asked else None


def _no_replays(rows: CaptureRows, launches: Launches) -> str | None:
    """Graph launches none of which left a row were traced as whole graphs, and the table of those is not there; a
    capture that ties no work to any call cannot show that."""
    graphs = np.flatnonzero(launches.is_graph_launch & (rows.host.correlation > 0))
    tied = (launches.call >= 0).any() and not (rows.device.kind == KIND_GRAPH).any()
    if len(graphs) and tied and not np.isin(launches.call, graphs).any():
        return f"none of {len(graphs)} graph launches left a replay or a kernel in the capture"
    return None


def _sizes(rows: CaptureRows) -> str | None:
    if not len(rows.copies) or (rows.copies.size_bytes != ABSENT).any():
        return None
    return f"none of its {len(rows.copies)} copies tells its size"


def _none_of(
    rows: CaptureRows, launches: Launches, what: Literal["copies", "memsets"], calls: str | None
) -> str | None:
    """Why that there are none of them does not say that none ran. HIP does some by kernels."""
    there = len(rows.copies) if what == "copies" else (rows.device.kind == KIND_MEMSET).any()
    if there or not len(rows.work):
        return None
    if calls is not None:
        return f"the capture has no {what}, and {calls}"
    asked = len(asking_calls(rows, launches, what))
    return f"the capture has no {what}, and {asked} calls that asked for some" if asked else None


def asking_calls(
    rows: CaptureRows, launches: Launches, what: Literal["kernels", "copies", "memsets"]
) -> LongArray:
    """Host rows of calls that asked for something and left no row of a device. HIP copies and sets some memory by
    kernels; what is captured into a graph runs when that is launched."""
    names = [call_of(name) for name in (*rows.names, "")]
    asks = np.array([_asks(own, what) for own in names], dtype=np.bool_)
    asking = asks[rows.host.name] & launches.is_call & ~launches.is_inner
    calls = np.setdiff1d(np.flatnonzero(asking), launches.call)
    if any(names[code].name.startswith("hip") for code in np.unique(rows.host.name[calls]).tolist()):
        return calls[:0]
    return calls[~_capturing(rows, launches, names)[calls]] if len(calls) else calls


def _asks(call: Call, what: str) -> bool:
    if what == "kernels":
        return call.kind == LAUNCH and not call.is_graph_launch
    return call.is_copy if what == "copies" else call.is_memset


def _capturing(rows: CaptureRows, launches: Launches, names: Sequence[Call]) -> BoolArray:
    """Which host rows are calls between the begin and the end of a graph's capture on their thread."""
    change = np.array([_CAPTURES.get(own.name, 0) for own in names], dtype=np.int64)[rows.host.name]
    order = np.flatnonzero(launches.is_call)
    order = order[np.lexsort((rows.host.start[order], rows.host.thread[order]))]
    found = np.zeros(len(rows.host), dtype=np.bool_)
    if change[order].any():
        found[order] = np.cumsum(change[order]) > 0
    return found


def _directions(rows: CaptureRows) -> str | None:
    known = np.array([name != "unknown" for name in (*rows.directions, "unknown")], dtype=np.bool_)
    if not len(rows.copies) or known[rows.copies.direction].any():
        return None
    return f"none of its {len(rows.copies)} copies tells its direction"
