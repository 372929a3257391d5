"""The tables of a Recording: names, columns, types, units. One place; writers and readers both go by it.

History of the version:
  1  first layout.
  2  columns of imported captures: spans.domain, phase, graph_node, size_bytes; copies.phase, api, copy_count,
     graph_node; phases.origin. Null in recordings of the probe.
  3  steps.drafted_reqs, drafted_tokens, accepted_tokens.

All times are int64 nanoseconds of the clock named by `clock_id`. Every column is nullable: null means "not measured",
and `recording.json` carries the reason in `diagnostics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 3

ColumnType = Literal["int64", "float64", "string", "bool"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (with unit suffix), its storage type, and what it means."""

    name: str
    type: ColumnType
    doc: str = ""


def _columns(type_: ColumnType, names: str) -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name in names.split())


KEYS: tuple[Column, ...] = (
    Column("host", "string", "host name, scrubbed on request"),
    Column("pid", "int64", "process id on that host"),
    Column("rank", "int64", "rank of the process in its group"),
    Column("device", "string", "device index or name that the row belongs to"),
    Column("clock_id", "string", "the clock whose nanoseconds the row's times are"),
    Column("step", "int64", "step number within the process; null outside steps"),
)

SWEEP_KEYS: tuple[Column, ...] = (
    Column("point", "string"),
    Column("launch", "int64"),
    Column("arm", "string"),
    Column("pair", "int64"),
    Column("order", "int64"),
)

STEPS = (
    *_columns("int64", "start_ns end_ns period_ns latency_ns host_busy_ns host_wait_ns"),
    *_columns("int64", "num_reqs num_tokens padded_tokens padded_reqs kv_tokens_sum kv_tokens_max"),
    *_columns("int64", "num_prefill num_decode num_new num_finished num_resumed num_preempted num_moved_rows"),
    Column("batch_overlap", "float64", "Jaccard index of this step's and the step before's request ids"),
    *_columns("int64", "num_syncs num_launches num_h2d"),
    Column("drafted_reqs", "int64", "requests whose drafts the step verified; 0 without speculation"),
    Column("drafted_tokens", "int64", "their drafts"),
    Column("accepted_tokens", "int64", "drafts among the tokens that the step brought back"),
    *_columns("bool", "warmup complete"),
)

PHASES = (
    Column("name", "string", "preprocess, forward, sample, between_steps"),
    Column("host_ns", "int64", "host time of the phase"),
    Column("span_ns", "int64", "between device events at the phase's borders"),
    Column("starved_ns", "int64", "the part of the span in which the stream had nothing to do"),
    Column("busy_ns", "int64", "device work in the span; from a profiler or a model only"),
    Column("err_ns", "int64"),
    Column("span_start_ns", "int64", "when the span begins; it ends span_ns later"),
)

SPANS = (
    Column("lane", "string", "host:<thread> or gpu:<stream>"),
    Column("name", "string"),
    Column("kind", "string", "phase, range, op, kernel, memset, graph, launch, api, sync, wait, overhead"),
    Column("depth", "int64"),
    *_columns("int64", "start_ns end_ns err_ns"),
    Column("correlation", "int64", "the same on a launch span (host) and on what it launched (device)"),
)

COPIES = (
    Column("direction", "string", "h2d, d2h, d2d; of captures also h2h, p2p, unified_*, with arrays *2a, a2*"),
    *_columns("int64", "size_bytes changed_bytes"),
    Column("src_kind", "string", "pageable, pinned, device, managed, unknown"),
    Column("dst_kind", "string"),
    Column("buffer", "string", "the staged buffer's name"),
    Column("lane", "string", "gpu:<stream>"),
    *_columns("int64", "enqueue_start_ns enqueue_end_ns start_ns end_ns err_ns"),
    *_columns("bool", "queued is_async"),
    Column("correlation", "int64"),
)

WAITS = (
    Column("lane", "string", "the lane that waited"),
    Column("reason", "string", "what for: tokens, buffer:<name>, ..."),
    Column("awaited", "int64", "correlation of the awaited operation"),
    *_columns("int64", "start_ns end_ns"),
)

EDGES = (
    Column("kind", "string", "consumer (first reader of a copy), event (a queue waits for another queue's operation)"),
    Column("waiting", "int64", "correlation of the operation that may not start earlier"),
    Column("awaited", "int64", "correlation of the operation that must have ended"),
)

DISPATCH = (
    *_columns("int64", "num_tokens num_reqs"),
    Column("uniform", "bool"),
    Column("size", "int64", "captured size; null when nothing was replayed"),
    Column("mode", "string", "none, piecewise, full"),
    Column("reason", "string", "hit, above_max, mixed, not_captured, lora, disabled, prompt_embeds"),
)

BUFFERS = (
    Column("buffer", "string"),
    *_columns("int64", "capacity_bytes used_bytes reserved_bytes"),
    Column("memory", "string", "pinned, pageable; device: the device side of a buffer"),
    *_columns("int64", "slot reuse_count wait_ns"),
    Column("hazard", "string", "none, possible, observed"),
)

CALIBRATION = (
    Column("name", "string", "what was measured"),
    Column("key", "string", "size, queue state, shape or kind that the value belongs to"),
    Column("value", "float64"),
    Column("unit", "string"),
    *_columns("string", "gpu driver date source kernel_hash"),
)

TELEMETRY = (
    Column("time_ns", "int64"),
    *_columns("int64", "sm_clock_mhz mem_clock_mhz power_mw temperature_c throttle_reasons memory_used_bytes"),
    Column("gpu_utilization_pct", "int64"),
)

IMPORTED: dict[str, tuple[Column, ...]] = {
    "phases": (Column("origin", "string", "ranges:<map> or inferred; null: the probe's own"),),
    "spans": (
        Column("domain", "string", "NVTX domain of a range; null is the default domain"),
        Column("phase", "string", "phase that the row, or the launch behind it, belongs to"),
        Column("graph_node", "int64", "node of a CUDA graph that a kernel replays"),
        Column("size_bytes", "int64", "bytes that a memset wrote"),
    ),
    "copies": (
        Column("phase", "string", "phase that the call behind the copy belongs to"),
        Column("api", "string", "the call that asked for the copy, without its version suffix"),
        Column("copy_count", "int64", "copies behind this row, of a batched call"),
        Column("graph_node", "int64", "node of a CUDA graph that the copy replays"),
    ),
}
"""Columns that only importers of captures fill, behind the others of their table."""

LEDGER_COLUMNS: dict[str, tuple[Column, ...]] = {
    "steps": STEPS,
    "phases": PHASES,
    "spans": SPANS,
    "copies": COPIES,
    "waits": WAITS,
    "edges": EDGES,
    "dispatch": DISPATCH,
    "buffers": BUFFERS,
    "calibration": CALIBRATION,
    "telemetry": TELEMETRY,
}
"""What a ledger row has behind its step."""

TABLES: dict[str, tuple[Column, ...]] = {
    name: (*columns, *IMPORTED.get(name, ())) for name, columns in LEDGER_COLUMNS.items()
}
"""Columns of each table, without the keys that stand before them (KEYS, and SWEEP_KEYS inside a sweep)."""

OWN_SOURCE = "lab"
"""Source of what our runner records."""
CAPTURE_SOURCES = ("nsys", "kineto")
"""Sources of imported captures."""
ONLY_CAPTURES = "only imported captures have it"
"""Why a column that importers fill is null elsewhere."""
