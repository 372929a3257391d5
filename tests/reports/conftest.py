"""A recording made by hand, by one rule for every step: each figure in the tests can be worked out on paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd
import pytest
from stepscope.instrumentation.recording.schema import KEYS, TABLES

PANDAS_TYPES = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}
US = 1_000
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

    The block-table copy runs 90 to 90 + copy_us and so lies under build_indices (80-200) for min(copy_us, 110) µs;
    slot mapping is its first reader. Device forward 405-805, sampling 805-855, tokens back 860-870.
    `size` is the captured size that the step's 6 tokens are padded to; None runs it without a graph.
    """
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
    ranges = (("update_states", 0, 60), ("commit_block_table", 60, 80), ("build_indices", 80, 200),
              ("copy_inputs", 200, 230), ("slot_mapping", 230, 250), ("attention_metadata", 250, 290), ("dispatch", 290, 300))
    for name, begin, end in ranges:
        span(HOST, name, "range", 1, (begin, end), None)
    _add_copies(rows, step, at, first, copy_us)
    for corr, name, kind, call, run in (
        (first + 3, "slot_mapping", "kernel", (235, 240), (245, 255)),
        (first + 4, "forward", "graph" if size else "kernel", (310, 330), (405, 805)),
        (first + 5, "sample", "kernel", (410, 420), (805, 855)),
    ):
        span(HOST, name, "launch", 2, call, corr)
        span(COMPUTE, name, kind, None, run, corr)
    rows.add("edges", step=step, kind="consumer", waiting=first + 3, awaited=first + 1)
    rows.add("waits", step=step, lane=HOST, reason="tokens", awaited=first + 6, start_ns=at(500), end_ns=at(875))
    _add_ledger(rows, step, start_ns, size)


def _add_copies(rows: Rows, step: int, at, first: int, copy_us: int) -> None:
    for corr, buffer, direction, nbytes, call, run in (
        (first + 1, "block_table", "h2d", copy_us * 1024, (62, 70), (90, 90 + copy_us)),
        (first + 2, "input_ids", "h2d", 64, (205, 212), (215, 219)),
        (first + 6, "sampled", "d2h", 48, (425, 430), (860, 870)),
    ):
        src, dst = ("pinned", "device") if direction == "h2d" else ("device", "pinned")
        rows.add("copies", step=step, direction=direction, size_bytes=nbytes, changed_bytes=nbytes // 4, src_kind=src,
                 dst_kind=dst, buffer=buffer, lane=COMPUTE, enqueue_start_ns=at(call[0]), enqueue_end_ns=at(call[1]),
                 start_ns=at(run[0]), end_ns=at(run[1]), err_ns=0, queued=False, is_async=True, correlation=corr)


def _add_ledger(rows: Rows, step: int, start_ns: int, size: int | None) -> None:
    rows.add("steps", step=step, start_ns=start_ns, end_ns=start_ns + 900 * US, period_ns=1000 * US, latency_ns=900 * US,
             host_busy_ns=625 * US, host_wait_ns=375 * US, num_reqs=6, num_tokens=6, padded_tokens=size or 6,
             padded_reqs=size or 6, kv_tokens_sum=600, kv_tokens_max=120, num_prefill=0, num_decode=6, num_new=0,
             num_finished=0, num_resumed=0, num_preempted=0, num_moved_rows=0, batch_overlap=1.0, num_syncs=1,
             num_launches=3, num_h2d=2, warmup=False, complete=True)
    rows.add("dispatch", step=step, num_tokens=6, num_reqs=6, uniform=True, size=size, mode="full" if size else "none",
             reason="hit" if size else "above_max")
    for buffer, capacity in (("block_table", 8 << 20), ("input_ids", 8192)):
        rows.add("buffers", step=step, buffer=buffer, capacity_bytes=capacity, used_bytes=64, reserved_bytes=capacity * 2,
                 memory="pinned", slot=step % 2, reuse_count=step // 2, wait_ns=0, hazard="none")
