"""The replay against the counterfactual: arms first, last and skip in turns, by size, hand-off and road of the copy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...analysis.arms import ArmPoint, pair_orders
from ...analysis.blocks import Block
from ...analysis.summary import Summary
from ...analysis.tables import floats, texts
from ..launch_groups import measure_launch
from ..launches import launches
from ..plan import make_plan
from ..spec import PointSpec
from ..summary import summary_of
from .check import Check, Finding, Setting, exact, replaced, within

ROWS = 64
WIDTHS = {512: 0.125, 8192: 2.0, 32_768: 8.0}
"""Block-table width -> MiB at 64 rows of 4 bytes."""
ROADS = {
    "compute": {"copy_stream": "compute", "device_buffers": "single_guarded"},
    "single_guarded": {"copy_stream": "dedicated", "device_buffers": "single_guarded"},
    "double": {"copy_stream": "dedicated", "device_buffers": "double"},
}
SMALL_MIB = 0.125
PROMPT_TOKENS = 2048
"""So long that the forward outlasts all host work: with two steps in flight the device then binds, and shows a copy."""
HANDOFFS = ("sync", "async_auto")
WIDTH = "runner.table_width"
SWITCHES = ("runner.token_handoff", "runner.copy_stream", "runner.device_buffers")
LEAST_NS, SHARE = 8_000, 0.1
Row = dict[str, Any]
Axes = tuple[Sequence[int], Sequence[str], Sequence[str]]
"""Widths, roads, hand-offs."""


def cell_specs(device: str, *, quick: bool, **shape: Any) -> list[dict[str, Any]]:
    """The sweeps of all cells; three arms of each take turns on one runner. `shape` may name model and prompt_len.

    Two large ones and a small one if `quick`; the small copies are null whatever their road, so one of them is run.
    """
    small = [width for width, mib in WIDTHS.items() if mib == SMALL_MIB]
    large = [width for width in WIDTHS if width not in small]
    if quick:
        return [
            _cell_spec(device, (widths, ("compute",), (handoff,)), blocks=4, **shape)
            for widths, handoff in ((small, "sync"), (large[-1:], "sync"), (large[-1:], "async_auto"))
        ]  # fmt: skip
    return [
        _cell_spec(device, (small, ("compute",), HANDOFFS), blocks=4, **shape),
        _cell_spec(device, (large, tuple(ROADS), HANDOFFS), blocks=16, **shape),
    ]


def _cell_spec(
    device: str, axes: Axes, *, blocks: int, model: str = "llama-1b", prompt_len: int = PROMPT_TOKENS
) -> dict[str, Any]:
    widths, names, handoffs = axes
    roads = [ROADS[name] for name in names]
    return {
        "workload": {
            "regime": "steady", "scheduler": {"reserve_output": True},
            "settings": {"num_reqs": ROWS, "prompt_len": prompt_len},
        },
        "runner": {
            "model": model, "graph_mode": "full", "capture_sizes": [ROWS], "slot_mapping": "host",
            "max_model_len": prompt_len + 2048, "max_num_batched_tokens": 8192,
            "num_blocks": ROWS * (prompt_len + 2048) // 16 + 1,
        },
        "device": device,
        "measure": {"interleave": "commit_order", "blocks": blocks, "block_steps": 20, "settle_steps": 3},
        "grid": {
            "runner.commit_order": ["first", "last", "skip"], "runner.table_width": list(widths),
            "runner.token_handoff": list(handoffs),
        },
        "zip": {f"runner.{name}": [road[name] for road in roads] for name in ("copy_stream", "device_buffers")},
    }  # fmt: skip


def measured_cells(specs: Sequence[dict[str, Any]]) -> tuple[pd.DataFrame, int]:
    """A row a cell, as `arms.pair_orders` makes them; and cells below the resolution that give an exposure a copy."""
    points = list(_measured(specs))
    small = [point for point in points if WIDTHS.get(int(str(point.parameters[WIDTH]))) == SMALL_MIB]
    given = sum(point.summary.metrics.get("exposed_p50_ns") is not None for point in small)
    return pair_orders(points), given


def _measured(specs: Sequence[dict[str, Any]]) -> Iterator[ArmPoint]:
    """Every point, measured in this process: one launch tells whether the replay agrees with what it replays.

    The replay is asked of arm `first`; of the others the blocks count.
    """
    plan = make_plan([(f"verify-{at}", spec) for at, spec in enumerate(specs)], {})
    with tempfile.TemporaryDirectory() as folder:
        for group in launches(plan.points):
            for point, _, measured, blocks in measure_launch(group, Path(folder), lambda: False):
                replayed = point.spec.runner.commit_order == "first"
                found = summary_of(measured) if replayed else {"metrics": {}, "reasons": {}}
                choice = {name: _set(point.spec, name) for name in (WIDTH, *SWITCHES, "runner.commit_order")}
                yield ArmPoint(
                    point.id, choice, Summary(found["metrics"], found["reasons"]), 0, tuple(map(_block, blocks)),
                )  # fmt: skip


def _set(spec: PointSpec, name: str) -> object:
    return getattr(spec.runner, name.partition(".")[2])


def _block(block: dict[str, Any]) -> Block:
    return Block(block["order"], tuple(block["periods_ns"]))


def judged(cells: pd.DataFrame, small_given: int) -> list[Finding]:
    """Findings of the review's point (7); copies of 0.125 MiB are below the resolution and must be null."""
    rows = [_row(cells, at) for at in range(len(cells))]
    large = [row for row in rows if WIDTHS.get(row["width"], 0) >= 2]
    close = [_close(row) for row in large]
    off = [_said(row) for row, ok in zip(large, close, strict=True) if not ok]
    planted = f"{len(large)} cells of 2 and 8 MiB: replayed within max(8 us, 10 %) of first - skip"
    findings = [
        within(f"{planted}; not: {'; '.join(off) or 'none'}", sum(close), max(len(large) - 1, 1), len(large)),
        exact("cells of 0.125 MiB that give an exposure a copy", 0, small_given),
    ]
    for row in large:
        if row["handoff"] != "sync" and row["stream"] == "compute" and None not in (row["order"], row["skip"]):
            findings.append(within(f"{row['name']}: last - first", row["order"] / 1e3, -5, 5, "us"))
            findings.append(within(f"{row['name']}: (first - skip) / |C|", row["skip"] / row["copy"], 0.9, 1.1))
        if row["handoff"] != "sync" and row["buffers"] == "double" and row["width"] == max(WIDTHS):
            skip = 1e9 if row["skip"] is None else row["skip"]
            findings.append(within(f"{row['name']}: first - skip", skip / 1e3, -15, 15, "us"))
    return findings


def _close(row: Row) -> bool:
    if row["replayed"] is None or row["skip"] is None:
        return False
    return bool(abs(row["replayed"] - row["skip"]) <= max(LEAST_NS, SHARE * abs(row["skip"])))


def _said(row: Row) -> str:
    told = ("null" if row[name] is None else f"{row[name] / 1e3:.1f}" for name in ("replayed", "skip"))
    return "{} {} against {}".format(row["name"], *told)


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
    return judged(*measured_cells(cell_specs(setting.device, quick=setting.quick)))


CHECKS = (
    Check(
        group="overlap", name="cells", review="7", run=_cells, needs=("cuda",), seeded=False,
        why="arms are compared with the replay of real queues, and host times here are another machine's",
        mutants={
            "copies_forgotten": replaced(
                "experiments.verify.cells", "pair_orders",
                lambda whole: lambda *a, **k: whole(*a, **k).assign(commit_step_ns=0.0),
            ),
        },
    ),
)  # fmt: skip
