"""Every capture gives the values that an independent program computed, to the nanosecond."""

import json
from pathlib import Path

import pytest
from stepscope.analysis.captures.copies import copy_figures, hidden_figures
from stepscope.analysis.captures.devices import device_figures
from stepscope.analysis.captures.gathering import gather
from stepscope.instrumentation.sources import read_capture

CAPTURES = Path(__file__).resolve().parents[4] / "shared" / "captures"
ORACLE = CAPTURES / "ORACLE.jsonl"
DIRECTIONS = {"HtoD": "h2d", "DtoH": "d2h", "DtoD": "d2d"}
NSYS = (
    "kernels", "window_ns", "busy_ns", "idle_ns", "idle_pct", "kernel_union_ns", "memcpy_union_ns", "memset_union_ns",
    "gaps",
)  # fmt: skip
KINETO = {
    "window_us": "window_ns", "busy_us": "busy_ns", "idle_us": "idle_ns", "compute_us": "compute_union_ns",
    "comm_us": "communication_union_ns", "mem_us": "memory_union_ns",
    "mem_x_kernel_overlap_us": "memory_under_kernels_ns", "gap_max_us": "gap_max_ns",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason="the captures are not here")


def expected():
    found = {}
    for line in ORACLE.read_text().splitlines() if ORACLE.exists() else ():
        entry = json.loads(line)
        found.setdefault(entry["file"], []).append(entry)
    return found


@pytest.mark.parametrize("name", sorted(expected()))
def test_capture_equals_the_oracle(name):
    capture = read_capture(CAPTURES / name)
    rows = gather(capture.tables, capture.meta)
    devices = {own.device: own for own in device_figures(rows)}
    hidden = {own.device: own for own in hidden_figures(rows)}
    assert set(devices) == {str(entry["device"]) for entry in expected()[name]}
    for entry in expected()[name]:
        device = devices[str(entry["device"])]
        check = check_nsys if "window_ns" in entry else check_kineto
        check(device, hidden.get(device.device), entry)
        check_copies([own for own in copy_figures(rows) if own.device == device.device], entry)


def check_nsys(device, hidden, entry):
    assert {name: getattr(device, name) for name in NSYS} == {name: entry[name] for name in NSYS}
    assert (hidden.copies, hidden.union_ns, hidden.under_kernels_ns) == (
        entry["h2d_n"], entry["h2d_union_ns"], entry["h2d_hidden_under_kernels_ns"],
    )  # fmt: skip


def check_kineto(device, hidden, entry):
    assert {key: getattr(device, name) for key, name in KINETO.items()} == {key: ns(entry[key]) for key in KINETO}
    assert (device.idle_pct, device.gaps, device.gaps_10us_or_longer) == (
        entry["idle_pct"], entry["gaps"], entry["gaps_ge_10us"],
    )  # fmt: skip
    counts = entry["n"]
    assert (device.kernels, device.communication_kernels) == (counts["kernel"] + counts["comm"], counts["comm"])
    assert (device.copies, device.memsets) == (counts["gpu_memcpy"], counts["gpu_memset"])
    found = (hidden.union_ns, hidden.under_kernels_ns) if hidden else (0, 0)
    assert found == (entry["h2d_union_ns"], entry["h2d_hidden_under_kernels_ns"])


def check_copies(copies, entry):
    wanted = entry.get("copies") or {key: value for key, value in entry.items() if "->" in key}
    found = {(own.direction, own.src_kind, own.dst_kind): own for own in copies}
    assert set(found) == {kinds(key) for key in wanted}
    for key, values in wanted.items():
        own = found[kinds(key)]
        assert (own.copies, own.size_bytes, own.sum_ns) == (values["n"], values["bytes"], values.get("ns", own.sum_ns))
        if "union_ns" in values:
            assert own.sum_ns == values["sum_ns"]
            assert own.union_ns == values["union_ns"]
            assert own.hidden_under_kernels_ns == values["hidden_under_kernels_ns"]


def kinds(key):
    """ "HtoD Pinned->Device" → (h2d, pinned, device); "Host" tells no kind."""
    direction, memories = key.split(" ", 1)
    source, target = memories.lower().replace("host", "unknown").split("->")
    return DIRECTIONS[direction], source, target


def ns(microseconds):
    return round(microseconds * 1000)


def test_the_capture_with_ranges_only_has_no_device():
    capture = read_capture(CAPTURES / "nsys-3.0.0_titanrtx_inference_phases_nvtx_only.sqlite")
    assert device_figures(gather(capture.tables, capture.meta)) == ()
    steps = capture.tables["steps"].to_pydict()
    assert len(steps["step"]) == 304
    assert steps["complete"] == [*[True] * 303, False]  # the capture ends within an iteration
