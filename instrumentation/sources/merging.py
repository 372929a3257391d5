"""Several traces as one: ranks of a run, each from a file of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .arrays import ABSENT, LongArray, Names
from .trace import CapturedProcess, CopyRows, DeviceRows, HostRows, Note, Trace


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """All rows with the processes side by side. Processes that their files do not tell apart get a number as host."""
    if len(traces) == 1:
        return traces[0]
    names, devices = Names(), Names()
    host: list[HostRows] = []
    device: list[DeviceRows] = []
    copies: list[CopyRows] = []
    processes: list[CapturedProcess] = []
    for trace in traces:
        shift, name = len(processes), names.codes(trace.names)
        place = devices.codes(trace.devices)
        host.append(
            replace(
                trace.host, process=trace.host.process + shift, name=_renamed(trace.host.name, name),
                domain=_renamed(trace.host.domain, name),
            )
        )
        device.append(
            replace(
                trace.device, process=trace.device.process + shift, name=_renamed(trace.device.name, name),
                device=_renamed(trace.device.device, place),
            )
        )
        copies.append(
            replace(trace.copies, process=trace.copies.process + shift, device=_renamed(trace.copies.device, place))
        )
        processes += trace.processes
    first = traces[0]
    absent = set(first.absent).intersection(*(trace.absent for trace in traces))
    return replace(
        first, processes=_told_apart(processes), devices=devices.texts(), names=names.texts(),
        host=host[0].joined(*host[1:]), device=device[0].joined(*device[1:]), copies=copies[0].joined(*copies[1:]),
        absent=tuple(sorted(absent)), environment=_shared([trace.environment for trace in traces]),
        facts={**_facts(traces), "files": len(traces)},
        notes=(*_of_clocks(traces), *_of_times(traces), *_notes(traces)),
    )


def _facts(traces: Sequence[Trace]) -> dict[str, Any]:
    """What all files say of themselves: counts of damages together, and else what none contradicts."""
    told = [trace.facts for trace in traces]
    found = _shared(told)
    if any(own.get("invalid_rows") for own in told):
        found["invalid_rows"] = dict(sum((Counter(own.get("invalid_rows")) for own in told), Counter[str]()))
    for key in ("lost_events", "repaired_events"):
        if any(own.get(key) for own in told):
            found[key] = sum(own.get(key) or 0 for own in told)
    if any(own.get("truncated") for own in told):
        found["truncated"] = True
    return found


def _shared(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What none contradicts: ranks may run on GPUs of several kinds."""
    return {key: value for key, value in told[0].items() if all(own.get(key) == value for own in told)}


def _notes(traces: Sequence[Trace]) -> list[Note]:
    """Each once; one that several files share says of how many."""
    counts = Counter(note for trace in traces for note in dict.fromkeys(trace.notes))
    return [
        note if count == 1 else replace(note, reason=f"{note.reason}, in each of {count} files")
        for note, count in counts.items()
    ]


def _of_clocks(traces: Sequence[Trace]) -> tuple[Note, ...]:
    """What keeps the files from lying on one clock: some count from a base of their own, and others name none."""
    without = [number for number, trace in enumerate(traces, start=1) if not trace.facts.get("base_time_ns")]
    if not without or len(without) == len(traces):
        return ()
    these = f"but not number {', '.join(map(str, without[:5]))}"
    return (Note("spans", "start_ns", f"the files name a base of their times (baseTimeNanoseconds), {these}"),)


def _of_times(traces: Sequence[Trace]) -> tuple[Note, ...]:
    """Ranks of one run overlap in time. A file that begins when all before it had ended is another run's, or of another
    window of this one. Only files with a base of their times are asked: without one no clock is known to be shared."""
    windows = sorted(
        (*_window(trace), number) for number, trace in enumerate(traces, start=1) if trace.facts.get("base_time_ns")
    )
    if not windows:
        return ()
    apart, reached = [], windows[0][1]
    for start, end, number in windows[1:]:
        if start > reached:
            apart.append(number)
        reached = max(reached, end)
    if not apart:
        return ()
    these = f"number {', '.join(map(str, apart[:5]))} began when all before had ended"
    return (Note("spans", "start_ns", f"the files lie apart in time: {these}; report on one of them alone"),)


def _window(trace: Trace) -> tuple[int, int]:
    """First start and last end of all rows, ns. A trace has rows: one without is refused as it is read."""
    groups = [rows for rows in (trace.host, trace.device, trace.copies) if len(rows)]
    return min(int(rows.start.min()) for rows in groups), max(int(rows.end.max()) for rows in groups)


def _renamed(codes: LongArray, new: LongArray) -> LongArray:
    if not len(new):
        return codes
    return np.where(codes >= 0, new[np.maximum(codes, 0)], ABSENT)


def _told_apart(processes: Sequence[CapturedProcess]) -> tuple[CapturedProcess, ...]:
    if len(set(processes)) == len(processes):
        return tuple(processes)
    return tuple(replace(process, host=f"file {number}") for number, process in enumerate(processes, start=1))
