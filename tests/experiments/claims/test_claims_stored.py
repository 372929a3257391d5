"""From the folder of a sweep to the file of raw turns, and back."""

import json
from pathlib import Path

import pytest
from stepscope.analysis.claims.points import ClaimPoint, Turn
from stepscope.analysis.claims.registry import CLAIMS
from stepscope.errors import UsageError
from stepscope.experiments.claims.collect import collect, flattened, series_of
from stepscope.experiments.claims.stored import VERSION, ClaimRun, read_run, write_run
from stepscope.experiments.plan import make_plan
from stepscope.experiments.store import PointResult, SweepStore
from stepscope.experiments.visits import ROUNDS

TREE = {
    "claim": "E7",
    "workload": {"regime": "steady", "settings": {"prompt_len": 16}},
    "runner": {"max_model_len": 256, "num_blocks": 128, "model": "micro"},
    "device": "cpu",
    "measure": {"interleave": "token_gather", "repeats": 2, "keep": "blocks", "resident": True},
    "grid": {"workload.settings.num_reqs": [1, 16], "token_gather": ["index_select", "cat"]},
}  # fmt: skip
BLOCK = {
    "order": 3, "periods_ns": [10, 11],
    "series": {"build_indices_ns": [1, None, 3], "update_states_ns": [7, 7, 7]},
}  # fmt: skip
MACHINE = {"gpu_name": "NVIDIA H200", "engine": "abc"}


@pytest.fixture
def store(tmp_path: Path) -> SweepStore:
    """A sweep in which one point failed and one was not measured."""
    store = SweepStore.create(tmp_path / "sweep", make_plan([("e07.yaml", TREE)], {}))
    for number, point in enumerate(store.plan.points[:-1]):
        result = PointResult(point, "failed", "out of memory") if number == 0 else PointResult(point, "ok")
        record = {"device": "cuda", "modelled": False, "blocks": [BLOCK], "environment": MACHINE}
        store.finish(store.begin(point), result, {} if number == 0 else record)
    return store


def test_arms_cells_and_launches_are_told_apart_and_only_needed_series_are_kept(store: SweepStore) -> None:
    run = collect(store)
    assert (run.command, run.machine, run.origin) == ("perf sweep e07.yaml", MACHINE, "")
    assert [(point.arm, point.launch, point.cell["workload.settings.num_reqs"]) for point in run.points] == [
        ("index_select", 0, 1), ("index_select", 1, 1), ("cat", 0, 1), ("cat", 1, 1),
        ("index_select", 0, 16), ("index_select", 1, 16), ("cat", 0, 16), ("cat", 1, 16),
    ]  # fmt: skip
    assert run.points[1].cell == {
        "workload.settings.prompt_len": 16, "measure.device_events": True, "workload.settings.num_reqs": 1,
    }  # fmt: skip
    assert run.points[1].turns == (Turn(3, {"build_indices_ns": (1, None, 3)}),)
    assert run.points[1].visit == ROUNDS
    assert (run.points[0].turns, run.points[0].reason) == ((), "out of memory")
    assert (run.points[-1].turns, run.points[-1].reason) == ((), "not measured yet")


def test_what_was_modelled_or_measured_without_a_gpu_says_so(tmp_path: Path) -> None:
    store = SweepStore.create(tmp_path / "sweep", make_plan([("e07.yaml", TREE)], {}))
    point = store.plan.points[0]
    record = {"device": "sim", "modelled": True, "calibration": "h200"}
    store.finish(store.begin(point), PointResult(point, "ok"), record)
    run = collect(store)
    assert run.origin == "modelled: h200"
    assert run.points[0].reason == "its arms did not take turns"
    store.finish(store.begin(point), PointResult(point, "ok"), {"device": "cpu", "modelled": False})
    assert collect(store).origin == "measured on cpu: times of a host alone"


def test_a_sweep_without_claims_is_refused(tmp_path: Path) -> None:
    plain = {name: value for name, value in TREE.items() if name != "claim"}
    store = SweepStore.create(tmp_path / "sweep", make_plan([("plain.yaml", plain)], {}))
    with pytest.raises(UsageError, match="no point of this sweep belongs to a claim"):
        collect(store)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    turn = Turn(0, {"period_ns": (2**60, None), "build_indices_ns": (1, 2, 3)})
    points = (
        ClaimPoint("E7", {"w": 8192, "x": "compute", "y": True}, "cat", 4, (turn,), visit=4),
        ClaimPoint("E7", {}, "cat", 5, reason="out of memory"),
    )
    run = ClaimRun("perf sweep a.yaml", "2026-11-30", {"gpu_name": None}, points, "modelled: h200")
    write_run(tmp_path / "deep" / "run.json", run)
    assert read_run(tmp_path / "deep" / "run.json") == run
    assert len((tmp_path / "deep" / "run.json").read_text().splitlines()) == 4  # a point a line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "no points in it"), ("[1]", "no points in it"), ("{", "is no stored run of claims"),
        (json.dumps({"version": VERSION + 1, "points": []}), "has version 2, this stepscope reads 1; measure it again"),
        (json.dumps({"version": VERSION, "points": [3], "command": "", "date": "", "machine": {}}), "is no stored run"),
    ],
)  # fmt: skip
def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=told) as error:
        read_run(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_series_that_a_claim_is_made_of() -> None:
    assert series_of(CLAIMS["E7"]) == {"build_indices_ns"}
    assert series_of(CLAIMS["E2"]) == {"period_ns", "table_copy_ns", "host_wait_ns"}
    assert series_of(CLAIMS["E14"]) == {"forward_span_ns", "num_tokens", "padded_tokens"}
    assert series_of(CLAIMS["E18"]) == set()


def test_settings_are_flattened() -> None:
    tree = {"workload.settings": {"num_reqs": 64, "deep": {"er": 1}}, "runner.graph_mode": "full"}
    assert dict(flattened(tree)) == {
        "workload.settings.num_reqs": 64, "workload.settings.deep.er": 1, "runner.graph_mode": "full",
    }  # fmt: skip
