"""PyTorch profiler (Kineto) traces, packed or not, as a Trace. Several files are the ranks of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ....errors import MeasurementError, UsageError
from ...garbage import collector_held_back
from ..arrays import ABSENT, FURTHEST_NS
from ..hosts import check_devices
from ..links import lacks_kernels
from ..merging import merge_traces
from ..trace import RANGE, CapturedProcess, CopyRows, DeviceRows, HostRows, Note, Rows, Trace
from . import about
from .chunks import ChunkReader
from .collect import Collector
from .cutting import EventStream
from .ranks import ByPid, may_be_merged


def read_trace(paths: Sequence[Path], *, salvage: bool) -> Trace:
    """All files as one trace. Times are nanoseconds since 1970: each rank's own base is added, as integers.

    Raises UsageError, with the byte, for a file that is cut or no JSON, unless it is to be salvaged; MeasurementError
    (exit 3) for one with calls of CUDA or HIP and no work of a GPU, or with launches and no kernel.
    """
    return merge_traces([_read_one(path, salvage) for path in paths])


def _read_one(path: Path, salvage: bool) -> Trace:
    collector, stream = Collector(), EventStream(ChunkReader(path), salvage=salvage)
    with collector_held_back():
        for events in stream:
            collector.take(events)
        collector.finish()
    if about.is_view(stream.metadata):
        raise UsageError(f"{path}: perf report --format perfetto wrote this for viewers; give what it was made from")
    device, copies = collector.device(), collector.copies()
    host = _of_threads(collector.host(), device, copies)
    if not len(host) and not len(device) and not len(copies):
        raise UsageError(f"{path}: no events of a PyTorch profiler in it; give a trace that torch.profiler exported")
    if "calls" not in collector.absent() and lacks_kernels(host, device, copies):
        what = f"no GPU kernels beside {len(copies)} copies" if len(copies) else "no GPU kernels and no copies"
        raise MeasurementError(
            f"{path}: {what}, though calls of CUDA were recorded; "
            "profile with ProfilerActivity.CUDA and let the profiler stop before the process ends"
        )
    base = _usable_base(about.base_ns(stream.metadata), host, device, copies)
    seen = collector.callers or collector.pids  # a process that only feeds the other one may have more events
    pid = seen.most_common(1)[0][0] if seen else None
    trace = Trace(
        source="kineto", processes=(CapturedProcess(pid=_pid(pid), rank=about.rank(stream.metadata)),),
        devices=collector.devices.texts(), names=collector.names.texts(), host=host,
        device=device, copies=copies, clock="wall", absent=collector.absent(),
        environment=about.environment(stream.metadata),
        facts=about.facts(stream.metadata) | {
            "invalid_rows": dict(collector.invalid), "truncated": stream.truncated, "lost_events": stream.lost,
            "repaired_events": stream.repaired,
        },
        notes=_notes(collector, stream),
    )  # fmt: skip
    if may_be_merged(collector):
        trace = _taken_apart(trace, path, salvage)
    check_devices(trace, path, "the device of its events")
    return replace(trace, host=trace.host.moved(base), device=trace.device.moved(base), copies=trace.copies.moved(base))


def _of_threads(host: HostRows, device: DeviceRows, copies: CopyRows) -> HostRows:
    """Without the annotations that some versions draw on a stream's row under the category of those of threads."""
    is_range = host.kind == RANGE
    streams = np.setdiff1d(np.concatenate((device.stream, copies.stream)), host.thread[~is_range])
    on_stream = is_range & np.isin(host.thread, streams) & (host.thread != ABSENT)
    return host.taken(~on_stream) if on_stream.any() and not is_range.all() else host


def _taken_apart(trace: Trace, path: Path, salvage: bool) -> Trace:
    """The trace by processes, where the file was merged from those of several; it is read once more for that."""
    by_pid = ByPid()
    with collector_held_back():
        for events in EventStream(ChunkReader(path), salvage=salvage):
            by_pid.take(events)
    return by_pid.processes(trace) or trace


def _usable_base(base: int, *groups: Rows) -> int:
    """The base; 0 where times would leave what fits into 64 bits: then one of both is damaged."""
    latest = max((int(rows.end.max()) for rows in groups if len(rows)), default=0)
    return base if base + latest < FURTHEST_NS else 0


def _pid(pid: int | None) -> int | None:
    return pid if pid is not None and 0 <= pid < 1 << 31 else None


def _notes(collector: Collector, stream: EventStream) -> tuple[Note, ...]:
    found = [
        Note("spans", "start_ns", f"{count} events of category {category} without usable times were left out")
        for category, count in sorted(collector.invalid.items()) if count
    ]
    if stream.truncated:
        found.append(Note("spans", "end_ns", "the file is truncated: only the events before its cut are here"))
    if stream.lost:
        found.append(Note("spans", "name", f"{stream.lost} damaged events were left out"))
    if stream.repaired:
        found.append(Note("spans", "name", f"{stream.repaired} events had backslashes that were mended"))
    return tuple(found)
