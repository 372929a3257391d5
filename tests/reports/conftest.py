"""A recording made by hand, by one rule for every step: each figure in the tests can be worked out on paper."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd
import pytest
from stepscope.analysis import Summary, summarise
from stepscope.instrumentation.recording.meta import ClockInfo, Diagnostic, RecordingMeta
from stepscope.instrumentation.recording.reader import Recording
from stepscope.instrumentation.recording.schema import KEYS, TABLES
from stepscope.reports import Format, IndexEntry, SweepPoint, SweepView, render_index, render_sweep
from stepscope.reports.jsonable import to_json
from stepscope.reports.pages.recording import recording_document
from stepscope.reports.rendering import WRITERS
from stepscope.reports.views.recording import RecordingView, gather_recording
from stepscope.reports.views.report import recording_report

PANDAS_TYPES = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}
US = 1_000
At = Callable[[float], int]
HOST, COMPUTE, COPY = "host:main", "gpu:compute", "gpu:copy"


@dataclass
class Rows:
    """Rows of all tables as dicts; what a row does not name is null."""

    rows: dict[str, list[dict[str, object]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    keys: Mapping[str, object] = field(default_factory=lambda: {"host": "h", "pid": 1, "rank": 0, "clock_id": "hand"})

    def add(self, table: str, **values: object) -> None:
        self.rows[table].append({**self.keys, **values})

    def frames(self) -> dict[str, pd.DataFrame]:
        return {name: _frame(name, rows) for name, rows in self.rows.items()}


def _frame(name: str, rows: list[dict[str, object]]) -> pd.DataFrame:
    columns = (*KEYS, *TABLES[name])
    unknown = {key for row in rows for key in row} - {column.name for column in columns}
    assert not unknown, f"no such column in {name}: {unknown}"
    return pd.DataFrame({
        c.name: pd.array([row.get(c.name) for row in rows], dtype=PANDAS_TYPES[c.type]) for c in columns
    })


def add_step(rows: Rows, step: int, start_ns: int, *, copy_us: int = 100, size: int | None = 8) -> None:
    """One step of 1000 µs: preprocess 0-300, forward 300-400, sample 400-900, between 900-1000.

    The block-table copy runs 90 to 90 + copy_us and so lies under build_indices (80-200) for min(copy_us, 110) µs.
    Its first reader is slot mapping, which could start at 245 and starts when the 4 µs copy of the inputs behind it is
    done: a copy of 200 µs ends at 290, the inputs at 294, so 49 µs are exposed; one of 125 µs or less is hidden.
    Device forward 405-805, sampling 805-855, tokens back 860-870.
    `size` is the captured size that the step's 6 tokens are padded to; None runs it without a graph.
    """
    inputs_us = max(215, 90 + copy_us)
    reader_us = max(245, inputs_us + 4)

    def at(offset_us: float) -> int:
        return start_ns + int(offset_us * US)

    def span(lane: str, name: str, kind: str, depth: int | None, bounds: tuple[float, float], corr: int | None) -> None:
        rows.add("spans", step=step, lane=lane, name=name, kind=kind, depth=depth, start_ns=at(bounds[0]),
                 end_ns=at(bounds[1]), err_ns=0, correlation=corr)

    first = step * 10
    for name, begin, end in (("preprocess", 0, 300), ("forward", 300, 400), ("sample", 400, 900)):
        span(HOST, name, "phase", 0, (begin, end), None)
        rows.add("phases", step=step, name=name, host_ns=(end - begin) * US, span_ns=(end - begin) * US,
                 starved_ns=10 * US, busy_ns=None, err_ns=0, span_start_ns=at(begin))
    rows.add("phases", step=step, name="between_steps", host_ns=100 * US)
    ranges = (
        ("update_states", 0, 60), ("commit_block_table", 60, 80), ("build_indices", 80, 200), ("copy_inputs", 200, 230),
        ("slot_mapping", 230, 250), ("attention_metadata", 250, 290), ("dispatch", 290, 300),
    )
    for name, begin, end in ranges:
        span(HOST, name, "range", 1, (begin, end), None)
    _add_copies(rows, step, at, first, (copy_us, inputs_us))
    for corr, name, kind, call, run in (
        (first + 3, "slot_mapping", "kernel", (235, 240), (reader_us, reader_us + 10)),
        (first + 4, "forward", "graph" if size else "kernel", (310, 330), (405, 805)),
        (first + 5, "sample", "kernel", (410, 420), (805, 855)),
    ):
        span(HOST, name, "launch", 2, call, corr)
        span(COMPUTE, name, kind, None, run, corr)
    rows.add("edges", step=step, kind="consumer", waiting=first + 3, awaited=first + 1)
    rows.add("waits", step=step, lane=HOST, reason="tokens", awaited=first + 6, start_ns=at(500), end_ns=at(875))
    _add_ledger(rows, step, start_ns, size)


def _add_copies(rows: Rows, step: int, at: At, first: int, times_us: tuple[int, int]) -> None:
    copy_us, inputs_us = times_us
    for corr, buffer, direction, nbytes, call, run in (
        (first + 1, "block_table", "h2d", copy_us * 1024, (62, 70), (90, 90 + copy_us)),
        (first + 2, "input_ids", "h2d", 64, (205, 212), (inputs_us, inputs_us + 4)),
        (first + 6, "sampled", "d2h", 48, (425, 430), (860, 870)),
    ):
        src, dst = ("pinned", "device") if direction == "h2d" else ("device", "pinned")
        rows.add("copies", step=step, direction=direction, size_bytes=nbytes, changed_bytes=nbytes // 4, src_kind=src,
                 dst_kind=dst, buffer=buffer, lane=COMPUTE, enqueue_start_ns=at(call[0]), enqueue_end_ns=at(call[1]),
                 start_ns=at(run[0]), end_ns=at(run[1]), err_ns=0, queued=False, is_async=True, correlation=corr)


def _add_ledger(rows: Rows, step: int, start_ns: int, size: int | None) -> None:
    rows.add("steps", step=step, start_ns=start_ns, end_ns=start_ns + 900 * US, period_ns=1000 * US,
             latency_ns=900 * US, host_busy_ns=625 * US, host_wait_ns=375 * US, num_reqs=6, num_tokens=6,
             padded_tokens=size or 6, padded_reqs=size or 6,
             kv_tokens_sum=600, kv_tokens_max=120, num_prefill=0, num_decode=6, num_new=0,
             num_finished=0, num_resumed=0, num_preempted=0, num_moved_rows=0, batch_overlap=1.0, num_syncs=1,
             num_launches=3, num_h2d=2, warmup=False, complete=True)
    rows.add("dispatch", step=step, num_tokens=6, num_reqs=6, uniform=True, size=size, mode="full" if size else "none",
             reason="hit" if size else "above_max")
    for buffer, capacity in (("block_table", 8 << 20), ("input_ids", 8192)):
        rows.add("buffers", step=step, buffer=buffer, capacity_bytes=capacity, used_bytes=64,
                 reserved_bytes=capacity * 2, memory="pinned", slot=step % 2, reuse_count=step // 2, wait_ns=0,
                 hazard="none")


MODELLED = {
    "device": "sim", "modelled": True, "calibration": "h200: NVIDIA H200, driver 580.1, 2026-11-30, shape llama-1b",
}
MEASURED = {"device": "cuda", "modelled": False, "calibration": None}
FULL = {"preprocess_share": 0.3, "host_bound_share": 1.0, "hazards_observed": 0, "hazards_possible": 0,
        "async_pageable": 0, "build_overlap_fraction": 0.5}


def make_recording(num_steps: int = 6, base_ns: int = 1_000_000_000, copy_us: int = 100, **meta: object) -> Recording:
    """Steps 0..num_steps-1 back to back from `base_ns`; every fifth runs without a graph.

    Step 0 is warm-up; its copy is short, so that one kernel of the recording shows the launch latency of 5 µs.
    Every call gives tables of its own, to write to.
    """
    made = _recording(num_steps, base_ns, copy_us, tuple(sorted(meta.items())))
    return Recording(made.meta, {name: frame.copy() for name, frame in made.tables.items()})


@functools.cache
def _recording(num_steps: int, base_ns: int, copy_us: int, facts_of_meta: tuple[tuple[str, object], ...]) -> Recording:
    rows, meta = Rows(), dict(facts_of_meta)
    for step in range(num_steps):
        length_us = copy_us if step else 60
        add_step(rows, step, base_ns + step * 1000 * US, copy_us=length_us, size=None if step % 5 == 4 else 8)
    if num_steps:
        rows.rows["steps"][0]["warmup"] = True
    modelled = bool(meta.get("modelled", True))
    if modelled:
        facts = {"gpu": "NVIDIA H200", "driver": "580.1", "date": "2026-11-30", "source": "by hand"}
        rows.add("calibration", name="launch_latency", key="kernel", value=5000.0, unit="ns", **facts)
    described = RecordingMeta(
        **{**MODELLED, **meta}, source="hand", created="2026-11-30T12:00:00+00:00",
        clocks=(ClockInfo(clock_id="hand", kind="declared"),),
        configuration={"device": "sim", "workload": {"regime": "steady", "seed": 1}},
        environment={"python": "3.11.7", "memory_bytes": 8 << 30, "gpu_name": None, "nvml_reason": "no NVML library"},
        diagnostics=(Diagnostic("phases", "busy_ns", "nobody profiled the device"),),
    )
    return Recording.from_frames(rows.frames(), described)


def make_sweep(calibration: str = MODELLED["calibration"]) -> SweepView:
    """Two rows by two widths by two orders; committing last exposes what committing first hides. One point failed."""
    points = []
    for rows in (8, 64):
        for width in (512, 8192):
            copy_ns = rows * width // 8
            for order in ("first", "last"):
                exposed = copy_ns if order == "last" else 0
                points.append(SweepPoint(
                    f"p{len(points)}",
                    {"workload.settings.num_reqs": rows, "runner.table_width": width, "runner.commit_order": order},
                    metrics={**FULL, "period_p50_ns": 1_000_000 + exposed, "table_copy_p50_ns": copy_ns,
                             "exposed_p50_ns": exposed, "hidden_p50_ns": copy_ns - exposed, "exposed_step_ns": None},
                    reasons={"exposed_step_ns": "only 2 steady steps"}, calibration=calibration,
                    href=f"p{len(points)}.html",
                ))
    failed = SweepPoint("p8", {**points[0].parameters, "runner.commit_order": "skip"}, "failed", "out of memory",
                        calibration=calibration)
    pair = (("first of all", make_recording()),)
    return SweepView("sweep by hand", (*points, failed), {"python": "3.11.7"}, ("a note of the workload",), pair)


def make_entries() -> tuple[IndexEntry, ...]:
    """One modelled, one measured, one that cannot be read."""
    return (
        IndexEntry("one", "one.html", "lab", "2026-11-30T12:00:00+00:00", MODELLED["calibration"],
                   {"period_p50_ns": 1_234_567, "exposed_p50_ns": None}, {"exposed_p50_ns": "no consumer is declared"}),
        IndexEntry("two", "two.html", "nsys", "2026-11-29T12:00:00+00:00", "", {"period_p50_ns": 2_000_000}),
        IndexEntry("three", error="three/recording.json: is no JSON"),
    )


ALL_FAILED = SweepView("all failed", (SweepPoint("p0", {"a": 1}, "failed", "out of memory"),))
RECORDINGS: dict[str, tuple[str, Callable[[], Recording]]] = {
    "recording": ("by hand", make_recording),
    "measured": ("by device", lambda: make_recording(**MEASURED)),
    "no_steps": ("nothing", lambda: make_recording(0)),
    "one_step": ("single", lambda: make_recording(1)),
    "beyond_2_60": ("late", lambda: make_recording(5, base_ns=2**60 + 1)),
}


@functools.cache
def analysed(kind: str) -> tuple[RecordingView, Summary]:
    """The analysis behind a recording's pages, once in a session: it is what takes the time."""
    name, make = RECORDINGS[kind]
    recording = make()
    return gather_recording(recording, name), summarise(recording)


@functools.cache
def page(kind: str, format_: Format) -> str:
    """The page `kind` in a format, as the public functions write it."""
    if kind in RECORDINGS:
        view, summary = analysed(kind)
        if format_ == "json":
            return to_json(recording_report(view, summary))
        return WRITERS[format_](recording_document(view))
    return {
        "sweep": lambda: render_sweep(make_sweep(), format_),
        "failed_sweep": lambda: render_sweep(ALL_FAILED, format_),
        "index": lambda: render_index(make_entries(), format_, name="folder"),
        "empty_index": lambda: render_index((), format_, name="bare"),
    }[kind]()


@pytest.fixture
def pages() -> Callable[[str, Format], str]:
    return page


@pytest.fixture
def recordings() -> Callable[..., Recording]:
    return make_recording


@pytest.fixture
def sweeps() -> Callable[..., SweepView]:
    return make_sweep
