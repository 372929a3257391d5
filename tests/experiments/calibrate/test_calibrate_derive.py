"""From raw figures made by hand to the calibration file's numbers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from stepscope.experiments.calibrate import raw as figures
from stepscope.experiments.calibrate.derive import derive, fit, pageable_waits_above
from stepscope.experiments.calibrate.raw import PageableSample, RawFigures, read_raw
from stepscope.experiments.calibrate.run import source_of
from stepscope.runner.devices.calibration import load_calibration

BUNDLED_RAW = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "calibration_raw.json"

HOST = {name: 1000.0 + i for i, name in enumerate(figures.HostCosts.__struct_fields__)}
LATENCY = {"latency_ns": 2100.4, "wakeup_ns": 4000.0}
CURVE = [[4, 1000.0, 3000.0], [1000, 2000.0, 4000.0], [5000, 5000.0, 9000.0]]
MADE = {
    "origin": {"gpu": "G", "driver": "d", "torch": "t", "triton": "3", "date": "2026-01-02", "command": "c",
               "method": "m"},
    "shape": {"name": "two", "layers": 2, "hidden": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "intermediate": 16,
              "vocab": 32, "dtype": "bfloat16", "stack": "s"},
    "host_cost_ns": HOST,
    "latency_ns": {"kernel": LATENCY, "copy": {"latency_ns": -3.0, "wakeup_ns": 1.0}, "graph": LATENCY},
    "copies": {
        "h2d_pinned": CURVE, "d2h_pinned": CURVE, "h2d_pageable": CURVE,
        "event_bias": [[32, 100.0, 5300.0, 9100.0], [128, 100.0, 5100.0, 8100.0], [1024, 100.0, 9100.0, 7100.0]],
        "pageable_behind_work": [[4, 10.0, 12.0, 3e6], [64, 10.0, 20.0, 3e6], [65, 10.0, 2.9e6, 3e6]],
    },
    "ceilings": {"matmul_flops_per_s": 7.5e14, "device_copy_bytes_per_s": 4.25e12},
    "heads": {"lm_head": [[1, 99.6], [8, 120.2]]},
    "eager": [[1, [500.0, 300.0], [800.0, 700.0]], [8, [600.0, 400.0], [900.0, 1000.0]], [64, [9.0], [650.0]]],
    "attention": {"decode": [[1, 100, 110.0], [2, 100, 210.0], [4, 100, 410.0]], "prefill": [[1, 6.0], [3, 11.0]]},
    "stack": [[1, [400.4, 420.0, 390.6], "a"], [2, [500.0, 480.0], "b"]],
    "kernels": 17,
}  # fmt: skip


def raw(**changes) -> RawFigures:
    return msgspec.convert({**MADE, **changes}, RawFigures)


def test_rounds_give_the_stack_their_median_and_the_host_its_least() -> None:
    made = derive(raw(), "source").models["two"]
    assert made.graph_ns == (400, 490)
    assert made.eager.span_ns == (300, 400, 9)
    assert made.eager.host_ns == (700, 700, 700)  # the median of 700, 900 and 650, for every size


def test_the_stack_keeps_its_hashes_and_counts_its_kernels() -> None:
    made = derive(raw(), "source").models["two"]
    assert made.kernel_hash == ("a", "b")
    assert made.kernels_per_layer == 8
    nameless = derive(raw(stack=[[1, [4.0], None], [2, [5.0], "b"]], kernels=None), "source").models["two"]
    assert (nameless.kernel_hash, nameless.kernels_per_layer) == (None, None)


def test_machine_constants() -> None:
    made = derive(raw(), "source")
    assert (made.event_bias_ns.queued, made.event_bias_ns.idle) == (5200, 8000)
    assert (made.launch_latency_ns.kernel, made.launch_latency_ns.copy) == (2100, 0)  # a reading below 0 is no cost
    assert made.sync_wakeup_ns == 4000
    assert made.peak_copy_bytes_per_s == 1e9
    assert made.pageable_waits_above_bytes == 64
    assert made.host_cost_ns.copy_h2d_pinned == 4000
    assert made.host_cost_ns.graph_launch_piece == round(HOST["graph_launch_layer"])
    assert (made.matmul_flops_per_s, made.device_copy_bytes_per_s) == (7.5e14, 4.25e12)


def test_attention_is_a_line_over_what_it_reads() -> None:
    made = derive(raw(), "source").models["two"].attention
    assert (made.decode_ns_per_kv_token, made.decode_floor_ns) == (1.0, 10)
    assert (made.prefill_ns_per_pair, made.prefill_floor_ns) == (1.0, 5)  # 1 pair: 6 ns, 6 pairs: 11 ns


def test_a_line_never_starts_below_zero_and_tells_how_badly_it_fits() -> None:
    bent = fit([1, 2, 4], [1.0, 4.0, 16.0])
    assert bent.floor == 0
    assert bent.worst_error > 0.3
    straight = fit([1, 2, 3], [12.0, 14.0, 16.0])
    assert (round(straight.rate, 9), round(straight.floor, 9), round(straight.worst_error, 9)) == (2, 10, 0)


def samples(*waits: bool) -> list[PageableSample]:
    return [PageableSample(1 << i, 10.0, 2.9e6 if wait else 15.0, 3e6) for i, wait in enumerate(waits)]


@pytest.mark.parametrize(("waits", "limit"), [
    ((False, False, True, True), 2), ((True, True), 0), ((False, False), None), ((False, True, False), None),
])
def test_where_pageable_copies_begin_to_wait(waits, limit) -> None:
    assert pageable_waits_above(samples(*waits)) == limit


def test_time_that_the_copy_itself_takes_is_no_wait() -> None:
    # 8 MiB block the host for 3 ms on an idle stream too
    assert pageable_waits_above([PageableSample(8 << 20, 3.0e6, 3.1e6, 3e6)]) is None


@pytest.mark.skipif(not BUNDLED_RAW.exists(), reason="the raw figures lie in the checkout, not in the package")
def test_the_bundled_file_is_what_its_raw_figures_say() -> None:
    assert derive(read_raw(BUNDLED_RAW), source_of(BUNDLED_RAW)) == load_calibration("h200")
