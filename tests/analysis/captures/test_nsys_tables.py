"""The two vLLM captures give NVIDIA's own tables (`nsys stats`) by range, copy, call and kernel, to the nanosecond."""

import csv
import re
from pathlib import Path

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.instrumentation.sources import read_capture

CAPTURES = Path(__file__).resolve().parents[4] / "shared" / "captures"
STATS = CAPTURES / "nsys_stats"
MODES = ("graph", "node")
OPERATIONS = {"Host-to-Device": "h2d", "Device-to-Device": "d2d", "Device-to-Host": "d2h"}

pytestmark = pytest.mark.skipif(not STATS.exists(), reason="the captures are not here")


@pytest.fixture(scope="module")
def figures():
    found = {}
    for mode in MODES:
        capture = read_capture(CAPTURES / f"nsys-3.20.3_h200_vllm026_v1_{mode}.sqlite")
        found[mode] = capture_figures(capture.tables, capture.meta)
    return found


def table(mode, name, *columns):
    """The table's rows by its last column, as tuples of integers."""
    with (STATS / f"v1_{mode}_{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    key = next(own for own in ("Range", "Name", "Operation") if own in rows[0])
    return {row[key].lstrip(":"): tuple(int(row[column]) for column in columns) for row in rows}


def totals(found):
    return (found.total_ns, found.n, found.min_ns, found.max_ns)


@pytest.mark.parametrize("mode", MODES)
class TestTables:
    def test_ranges(self, figures, mode):
        wanted = table(mode, "nvtx_pushpop_sum", "Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")
        found = {own.name: (own.total_ns, own.uses, own.min_ns, own.max_ns) for own in figures[mode].ranges}
        assert found == wanted

    def test_projected_ranges(self, figures, mode):
        wanted = table(
            mode, "nvtx_gpu_proj_sum", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
            "Total GPU Ops",
        )  # fmt: skip
        found = {
            own.name: (own.nsys_projected_ns, own.nsys_range_ns, own.nsys_uses, own.nsys_ops)
            for own in figures[mode].ranges if own.nsys_uses
        }  # fmt: skip
        assert found == wanted

    def test_calls(self, figures, mode):
        wanted = table(mode, "cuda_api_sum", "Total Time (ns)", "Num Calls", "Min (ns)", "Max (ns)")
        found = {own.name: totals(own) for own in figures[mode].calls}
        assert found == {re.sub(r"_v\d{4,5}$", "", name): values for name, values in wanted.items()}

    def test_kernels(self, figures, mode):
        wanted = table(mode, "cuda_gpu_kern_sum", "Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")
        assert {own.name: totals(own) for own in figures[mode].kernels} == wanted

    def test_copies(self, figures, mode):
        wanted = table(mode, "cuda_gpu_mem_time_sum", "Total Time (ns)", "Count")
        memset = wanted.pop("[CUDA memset]")
        found = {own.direction: (own.sum_ns, own.copies) for own in figures[mode].copies}
        assert found == {OPERATIONS[name[13:-1]]: values for name, values in wanted.items()}
        (device,) = figures[mode].devices
        assert (device.memset_union_ns, device.memsets) == memset

    def test_sizes(self, figures, mode):
        with (STATS / f"v1_{mode}_cuda_gpu_mem_size_sum.csv").open() as file:
            wanted = {row["Operation"]: row["Total (MB)"] for row in csv.DictReader(file)}
        for own in figures[mode].copies:
            name = next(name for name, direction in OPERATIONS.items() if direction == own.direction)
            assert f"{own.size_bytes / 1e6:.3f}" == wanted[f"[CUDA memcpy {name}]"]
