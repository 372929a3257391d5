"""The replay against the counterfactual: arms first, last and skip in turns, by size, hand-off and road of the copy."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...analysis.tables import floats, texts
from ...reports.pages.sweep_tables import arms
from ..observer import Unwatched
from ..plan import make_plan
from ..store import SweepStore
from ..sweep import run_sweep
from ..sweep_view import sweep_view
from .check import Check, Finding, Setting, exact, replaced, within

WIDTHS = {128: 0.125, 2048: 2.0, 8192: 8.0}
"""Block-table width -> MiB at 256 rows of 4 bytes."""
ROADS = {
    "compute": {"copy_stream": "compute", "device_buffers": "single_guarded"},
    "single_guarded": {"copy_stream": "dedicated", "device_buffers": "single_guarded"},
    "double": {"copy_stream": "dedicated", "device_buffers": "double"},
}
LEAST_NS, SHARE = 8_000, 0.1
Row = dict[str, Any]


def cell_spec(device: str, *, quick: bool, rows: int = 256, widths: Sequence[int] = tuple(WIDTHS)) -> dict[str, Any]:
    """The sweep of all cells; three arms of each take turns in one process."""
    return {
        "workload": {"regime": "steady", "scheduler": {"reserve_output": True}, "settings": {"num_reqs": rows}},
        "runner": {
            "graph_mode": "full", "capture_sizes": [rows], "slot_mapping": "host", "max_model_len": 2048,
            "max_num_batched_tokens": 8192, "num_blocks": rows * 80,
        },
        "device": device,
        "measure": {
            "interleave": "commit_order", "blocks": 4 if quick else 12, "block_steps": 10, "settle_steps": 3,
        },
        "grid": {
            "runner.commit_order": ["first", "last", "skip"], "runner.table_width": list(widths),
            "runner.token_handoff": ["sync", "async_auto"],
        },
        "zip": {
            f"runner.{name}": [road[name] for road in ROADS.values()] for name in ("copy_stream", "device_buffers")
        },
    }  # fmt: skip


def measured_cells(spec: dict[str, Any]) -> tuple[pd.DataFrame, int]:
    """A row a cell, as `arms.pair_orders` makes them; and points below the resolution that give an exposure a copy."""
    with tempfile.TemporaryDirectory() as folder:
        store = SweepStore.create(Path(folder) / "cells", make_plan([("verify", spec)], {}))
        run_sweep(store, Unwatched())
        view = sweep_view(store)
        small = [point for point in view.measured if point.parameters.get("runner.table_width") == min(WIDTHS)]
        given = sum(point.metrics.get("exposed_p50_ns") is not None for point in small)
        return arms(view), given


def judged(cells: pd.DataFrame, small_given: int) -> list[Finding]:
    """Findings of the review's point (7); copies of 0.125 MiB are below the resolution and must be null."""
    rows = [_row(cells, at) for at in range(len(cells))]
    large = [row for row in rows if WIDTHS.get(row["width"], 0) >= 2]
    close = [_close(row) for row in large]
    findings = [
        within("12 cells at 2 and 8 MiB: replayed within max(8 us, 10 %) of first - skip", sum(close), 11, 12),
        exact("points at 0.125 MiB that give an exposure a copy", 0, small_given),
    ]
    for row in large:
        if row["handoff"] != "sync" and row["stream"] == "compute" and None not in (row["order"], row["skip"]):
            findings.append(within(f"{row['name']}: last - first", row["order"] / 1e3, -5, 5, "us"))
            findings.append(within(f"{row['name']}: (first - skip) / |C|", row["skip"] / row["copy"], 0.9, 1.1))
        if row["handoff"] != "sync" and row["buffers"] == "double" and row["width"] == 8192:
            findings.append(within(f"{row['name']}: first - skip", (row["skip"] or 1e9) / 1e3, -15, 15, "us"))
    return findings


def _close(row: Row) -> bool:
    if row["replayed"] is None or row["skip"] is None:
        return False
    return bool(abs(row["replayed"] - row["skip"]) <= max(LEAST_NS, SHARE * abs(row["skip"])))


def _row(cells: pd.DataFrame, at: int) -> Row:
    def text(name: str) -> str:
        full = f"runner.{name}"
        return (texts(cells, full)[at] or "") if full in cells.columns else ""

    def number(name: str) -> float | None:
        value, known = floats(cells, name)
        return float(value[at]) if known[at] else None

    row: Row = {"handoff": text("token_handoff"), "stream": text("copy_stream"), "buffers": text("device_buffers")}
    row |= {"width": int(text("table_width") or 0), "order": number("last_minus_first_ns")}
    row |= {"skip": number("first_minus_skip_ns"), "replayed": number("commit_step_ns"), "copy": number("copy_ns")}
    row["name"] = f"{WIDTHS.get(row['width'], row['width'])} MiB, {row['handoff']}, {row['stream']} {row['buffers']}"
    return row


def _cells(setting: Setting) -> Sequence[Finding]:
    """Review (7)."""
    return judged(*measured_cells(cell_spec(setting.device, quick=setting.quick)))


CHECKS = (
    Check(
        group="overlap", name="cells", review="7", run=_cells, needs=("cuda",),
        why="arms are compared with the replay of real queues, and host times here are another machine's",
        mutants={
            "copies_forgotten": replaced(
                "reports.pages.sweep_tables", "pair_orders",
                lambda whole: lambda *a, **k: whole(*a, **k).assign(commit_step_ns=0.0),
            ),
        },
    ),
)  # fmt: skip
