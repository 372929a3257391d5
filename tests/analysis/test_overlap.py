"""Overlap columns of hand-made copies: values, bounds, and the reasons for nulls."""

from __future__ import annotations

import pytest
from stepscope.analysis.overlap import copy_overlap

BASES = [0, 2**60]


def recording(source, base: int, err: int | None = 5, **copy):
    def span(name: str, kind: str, start: int, end: int, step: int, lane: str = "host:main", **rest):
        return {"step": step, "name": name, "kind": kind, "lane": lane, "start_ns": base + start, "end_ns": base + end,
                "err_ns": 0, **rest}

    return source(
        steps=[{"step": n, "complete": True, "warmup": n == 1} for n in (1, 2)],
        spans=[
            span("forward", "phase", 0, 20, 1), span("forward", "launch", 5, 15, 1, correlation=7),
            span("forward", "graph", 40, 130, 1, lane="gpu:compute", correlation=7),
            span("forward", "phase", 200, 220, 2), span("forward", "launch", 205, 215, 2, correlation=8),
            span("forward", "graph", 150, 160, 2, lane="gpu:compute", correlation=8),
            span("preprocess", "phase", 90, 200, 2), span("build_indices", "range", 110, 180, 2),
        ],
        copies=[{"step": 2, "buffer": "block_table", "direction": "h2d", "size_bytes": 64, "err_ns": err,
                 "start_ns": base + 100, "end_ns": base + 160, "enqueue_end_ns": base + 95, "correlation": 9,
                 "lane": "gpu:copy", "queued": True, **copy}],
    )


@pytest.mark.parametrize("base", BASES)
def test_overlap_with_each_partner(source, base: int) -> None:
    row = copy_overlap(recording(source, base)).iloc[0]
    assert (row["step"], row["copy_ns"], row["counted"]) == (2, 60, True)
    assert (row["build_ns"], row["build_min_ns"], row["build_max_ns"]) == (50, 45, 55)
    assert (row["preprocess_ns"], row["preprocess_min_ns"], row["preprocess_max_ns"]) == (60, 60, 60)
    assert (row["previous_forward_ns"], row["previous_forward_min_ns"], row["previous_forward_max_ns"]) == (30, 25, 35)
    assert row["build_fraction"] == 50 / 60
    assert row["previous_forward_fraction"] == 0.5
    assert row.isna().sum() == 1  # the reason


def test_no_fraction_below_four_times_the_error(source) -> None:
    row = copy_overlap(recording(source, 0, err=16)).iloc[0]
    assert row["build_ns"] == 50
    assert row["build_fraction"] is not None
    assert copy_overlap(recording(source, 0, err=16))["build_fraction"].isna().all()
    assert row["reason"] == "copy shorter than 4 times its error"
    assert not copy_overlap(recording(source, 0, err=15))["build_fraction"].isna().any()


@pytest.mark.parametrize(("change", "reason"), [
    ({"end_ns": None}, "no device times of the copy"),
    ({"err_ns": None}, "error of the copy's times is unknown"),
    ({"step": 1}, "build: not recorded"),
    ({"step": None}, "build: not recorded"),
])
def test_null_with_its_reason(source, change: dict, reason: str) -> None:
    row = copy_overlap(recording(source, 0, **change)).iloc[0]
    assert copy_overlap(recording(source, 0, **change))["build_fraction"].isna().all()
    assert row["reason"] == reason


def test_other_buffers_and_no_copies(source) -> None:
    made = recording(source, 0)
    assert len(copy_overlap(made, "input_ids")) == 0
    assert len(copy_overlap(source())) == 0
