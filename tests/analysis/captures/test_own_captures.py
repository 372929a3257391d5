"""Captures of our own runner on an H200: NVIDIA's tables to the nanosecond, and the probe's recording within err."""

import csv
import re
from pathlib import Path

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.analysis.compare import compare
from stepscope.instrumentation.recording import Recording
from stepscope.instrumentation.sources import read_capture

DATA = Path(__file__).resolve().parents[2] / "data" / "captures" / "h200"
MODES = ("graph", "node")
OPERATIONS = {"Host-to-Device": "h2d", "Device-to-Device": "d2d", "Device-to-Host": "d2h"}
PHASES = ("preprocess", "forward", "sample")


@pytest.fixture(scope="module")
def captures():
    return {mode: read_capture(DATA / f"{mode}.sqlite") for mode in MODES}


@pytest.fixture(scope="module")
def figures(captures):
    return {mode: capture_figures(capture.tables, capture.meta) for mode, capture in captures.items()}


def table(mode, name, *columns):
    with (DATA / "nsys_stats" / f"{mode}_{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    key = next(own for own in ("Range", "Name", "Operation") if own in rows[0])
    return {row[key]: tuple(int(row[column]) for column in columns) for row in rows}


def totals(found):
    return (found.total_ns, found.n, found.min_ns, found.max_ns)


def ranged(own):
    return f"{own.domain or ''}:{own.name}"


@pytest.mark.parametrize("mode", MODES)
class TestNvidiasTables:
    def test_ranges_and_with_them_the_phases(self, figures, mode):
        wanted = table(mode, "nvtx_pushpop_sum", "Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")
        found = {ranged(own): (own.total_ns, own.uses, own.min_ns, own.max_ns) for own in figures[mode].ranges}
        assert found == wanted
        # a range `sample` inside the phase `sample` is no second phase
        phases = {row.phase: row.host_ns for row in figures[mode].phases.itertuples()}
        assert {name: phases[name] for name in PHASES[:2]} == {
            name: wanted[f"stepscope:{name}"][0] for name in PHASES[:2]
        }

    def test_projected_ranges(self, figures, mode):
        wanted = table(
            mode, "nvtx_gpu_proj_sum", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
            "Total GPU Ops",
        )  # fmt: skip
        found = {
            ranged(own): (own.nsys_projected_ns, own.nsys_range_ns, own.nsys_uses, own.nsys_ops)
            for own in figures[mode].ranges if own.nsys_uses
        }  # fmt: skip
        assert found == wanted

    def test_kernels_and_calls(self, figures, mode):
        wanted = table(mode, "cuda_gpu_kern_sum", "Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")
        assert {own.name: totals(own) for own in figures[mode].kernels} == wanted
        wanted = table(mode, "cuda_api_sum", "Total Time (ns)", "Num Calls", "Min (ns)", "Max (ns)")
        found = {}
        for own in figures[mode].calls:  # ours are by process
            total, n, least, most = found.get(own.name, (0, 0, own.min_ns, 0))
            found[own.name] = (
                total + own.total_ns, n + own.n, min(least, own.min_ns), max(most, own.max_ns)
            )  # fmt: skip
        assert found == {re.sub(r"_v\d{4,5}$", "", name): values for name, values in wanted.items()}

    def test_copies(self, figures, mode):
        wanted = table(mode, "cuda_gpu_mem_time_sum", "Total Time (ns)", "Count")
        found = {}
        for own in figures[mode].copies:  # ours are by kind of memory as well
            total, n = found.get(own.direction, (0, 0))
            found[own.direction] = (total + own.sum_ns, n + own.copies)
        assert found == {OPERATIONS[name[13:-1]]: values for name, values in wanted.items()}


@pytest.mark.parametrize("name", ["graph.sqlite", "node.sqlite", "torch.json.gz"])
def test_the_recording_agrees_with_the_capture_of_its_run(name):
    capture = read_capture(DATA / name)
    found = compare(Recording.load(DATA / "recordings" / name.partition(".")[0]), capture.recording())
    assert (found.same_run, found.agrees, len(found.steps)) == (True, True, 44)
    assert (found.steps.unmatched_a, found.steps.unmatched_b) == ((), ())
    # all device work lies in the spans between the events of its phase
    assert {own.name: (own.n, own.inside) for own in found.device_work} == dict.fromkeys(PHASES, (44, 44))
    # every copy that the runner asked for, and no other between host and device
    copies = {own.direction: (own.a_copies, own.b_copies, own.a_bytes == own.b_bytes) for own in found.copies}
    assert copies["h2d"] == (220, 220, True)
    assert copies["d2h"] == (44, 44, True)
    # a phase is longer by what opening and closing its range costs than the probe's own clock says, a period is not
    told = {(own.name, own.figure): own.delta_p50_ns for own in found.figures if own.n}
    assert all(1_000 < told[phase, "host_ns"] < 3_000 for phase in PHASES)
    assert abs(told["step", "period"]) < 100


def test_a_recording_does_not_agree_with_the_capture_of_another_run(captures):
    from stepscope.errors import Incomparable

    with pytest.raises(Incomparable, match="did not see the same run"):
        compare(Recording.load(DATA / "recordings" / "graph"), captures["node"].recording())


def test_kinds_of_memory_under_torch_profiler():
    capture = read_capture(DATA / "torch.json.gz")
    found = {
        (own.direction, own.src_kind, own.dst_kind): (own.copies, own.size_bytes)
        for own in capture_figures(capture.tables, capture.meta).copies
    }
    copies = Recording.load(DATA / "recordings" / "torch").table("copies")
    keys = ["direction", "src_kind", "dst_kind"]
    asked = {key: (len(rows), int(rows["size_bytes"].sum())) for key, rows in copies.groupby(keys)}
    assert asked.keys() == {("h2d", "pinned", "device"), ("d2h", "device", "pinned")}
    assert asked.items() < found.items()
    # the rest are the framework's own, on the device
    assert {key for key in found if key not in asked} == {("d2d", "device", "device")}


def test_nothing_of_the_machine_is_in_the_files():
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {f"{mode}.sqlite" for mode in MODES}
    for path in files:
        content = path.read_bytes()
        assert len(content) < 3_000_000
        assert not re.search(rb"/(?:root|home|tmp|usr)/|_TOKEN|_KEY=|PATH=", content), path
