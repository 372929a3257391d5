"""perf sweep: from a spec to points, a summary and a page; resume, dry run, Ctrl-C, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SPEC = """\
workload: {regime: steady, settings: {num_reqs: 2, prompt_len: 4}, scheduler: {reserve_output: true}}
runner: {max_num_seqs: 2, max_num_batched_tokens: 16, max_model_len: 64, block_size: 4}
device: sim
measure: {steps: 3}
grid: {commit_order: [first, last]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(SPEC)
    return path


def summaries(root: Path) -> dict[str, dict[str, object]]:
    return {
        path.parent.name.split("--")[0]: json.loads(path.read_text()) for path in root.glob("points/*/summary.json")
    }


@pytest.mark.usefixtures("here")  # its workers as processes: the next but one, and test_interleaved.py to its end
def test_a_sweep_ends_with_its_points_a_summary_and_a_page(
    perf: Callable[..., object], spec: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    ended = perf("sweep", spec, "--out", out)
    assert ended.code == 0
    # THEN each point is told as a line, the summary says that it is modelled, and the page's path comes last
    assert [line.split()[0:2] for line in ended.err.splitlines()[1:]] == [
        ["[1/2]", "commit_order-first"],
        ["[2/2]", "commit_order-last"],
    ]
    assert "modelled" in ended.out
    assert ended.out.splitlines()[-1] == f"report: {out / 'report.html'}"
    assert (out / "report.html").stat().st_size > 1_000_000
    found = summaries(out)
    assert {name: record["status"] for name, record in found.items()} == {
        "commit_order-first": "ok",
        "commit_order-last": "ok",
    }
    record = found["commit_order-first"]
    assert record["modelled"] is True
    assert "H200" in str(record["calibration"])
    assert record["metrics"]["steps_counted"] == 3  # type: ignore[index]
    assert record["outcome"]["num_measured"] == 3  # type: ignore[index]

    # AND reporting it again, in every format, needs nothing but the folder
    assert perf("report", out, "--format", "text").out in ended.out
    assert json.loads(perf("report", out, "--format", "json").out)["kind"] == "sweep"
    assert perf("report", out, "--format", "md", "-o", tmp_path / "page.md").out == f"{tmp_path / 'page.md'}\n"

    # AND resuming it measures nothing
    again = perf("sweep", "--resume", "--out", out)
    assert (again.code, again.err) == (0, "2 points, 2 measured before\n")


def test_a_point_that_fails_is_recorded_and_the_sweep_goes_on(
    perf: Callable[..., object], spec: Path, tmp_path: Path, here: pytest.MonkeyPatch
) -> None:
    # GIVEN work that breaks at its first point
    from stepscope.experiments.workers import measuring

    real = measuring.measure

    def flawed(spec: object, folder: Path, **keywords: object) -> object:
        if spec.runner.commit_order == "first":  # type: ignore[attr-defined]
            raise RuntimeError("the first\narm breaks")
        return real(spec, folder, **keywords)  # type: ignore[arg-type]

    here.setattr(measuring, "measure", flawed)
    out = tmp_path / "results"
    ended = perf("sweep", spec, "--out", out)
    assert ended.code == 3
    found = summaries(out)
    assert found["commit_order-first"]["status"] == "failed"
    assert found["commit_order-first"]["reason"] == "RuntimeError: the first arm breaks"
    assert found["commit_order-first"]["kind"] == "error"
    assert found["commit_order-last"]["status"] == "ok"
    # AND --resume measures only what failed
    here.setattr(measuring, "measure", real)
    again = perf("sweep", "--resume", "--out", out)
    assert (again.code, again.err.splitlines()[0]) == (0, "2 points, 1 measured before")
    assert summaries(out)["commit_order-first"]["status"] == "ok"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(spec: Path, tmp_path: Path) -> None:
    # GIVEN a sweep of many points in a process of its own, interrupted once it has told of its first point
    out = tmp_path / "results"
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "sweep",
        str(spec),
        "--out",
        str(out),
        "--param",
        "ring_slots=1,2,3,4,5,6,7,8",
    ]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert child.stderr is not None
    lines = [child.stderr.readline(), child.stderr.readline()]
    child.send_signal(signal.SIGINT)
    told, rest = child.communicate(timeout=120)
    # THEN it ends with 130 and one line that names the command to go on with
    assert lines[0] == "16 points\n"
    assert child.returncode == 130, rest
    last = rest.splitlines()[-1]
    assert last.startswith("perf: interrupted: ")
    assert last.endswith(f"of 16 points are kept in {out}; go on with: perf sweep --resume --out {out}")
    # AND every folder that is there is whole
    folders = list((out / "points").iterdir())
    assert 1 <= len(folders) < 16
    assert [folder.name for folder in folders if not (folder / "summary.json").exists()] == []
    assert [folder.name for folder in folders if not (folder / "recording" / "recording.json").exists()] == []
    assert "report.html" in told


def test_ctrl_c_while_the_report_is_made_says_how_to_go_on(
    spec: Path, tmp_path: Path, here: pytest.MonkeyPatch, perf: Callable[..., object]
) -> None:
    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    here.setattr("stepscope.experiments.sweep.report_sweep", interrupted)
    ended = perf("sweep", spec, "--out", tmp_path / "results")
    assert ended.code == 130
    assert ended.err.splitlines()[-1] == (
        f"perf: interrupted: 2 of 2 points are kept in {tmp_path / 'results'};"
        f" go on with: perf sweep --resume --out {tmp_path / 'results'}"
    )


def test_a_dry_run_prints_the_points_and_measures_nothing(
    perf: Callable[..., object], spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = perf("sweep", spec, "--dry-run")
    *points, last = ended.out.splitlines()
    assert [line.split()[1] for line in points] == ["commit_order-first", "commit_order-last"]
    assert len({line.split()[0] for line in points}) == 2
    assert last.startswith("2 points, about ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yaml"]


def test_cases_are_points_of_a_dry_run(perf: Callable[..., object]) -> None:
    cases = ("--case", "decode=8*1@64", "--case", "mix=64,3*1@90")
    ended = perf("sweep", *cases, "--device", "sim", "--dry-run")
    *points, last = ended.out.splitlines()
    assert [line.split()[1] for line in points] == ["case-decode-8-1-64", "case-mix-64-3-1-90"]
    assert last.startswith("2 points, about ")


def test_the_bundled_spec_has_84_points(perf: Callable[..., object]) -> None:
    ended = perf("sweep", "--dry-run")
    assert ended.out.splitlines()[-1].startswith("84 points, about ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--param", "blok_size=4"], "unknown parameter 'blok_size'; did you mean 'block_size'?"),
        (["--param", "num_reqs=3"], "a regime's own is written workload.settings.num_reqs"),
        (["--param", "block_size=0"], "block_size"),
        (["--param", "speculative=-1"], "runner.speculative: -1 is no number of drafts; give 1 or more, or off"),
        (
            ["--param", "workload.settings.prompt_len=64"],
            "its prompt of 64 tokens leaves no room for an answer within max_model_len 64",
        ),
        (["--param", "graph_mode=full", "--param", "capture_sizes=[32]"], "runner.capture_sizes: "),
        (["--param", "cost_model=gpt-2"], "cost model 'gpt-2'"),
        (["--param", "cost_model=llama-8b"], "cost model 'llama-8b'"),
        (["--param", "device=tpu"], "device: Invalid enum value 'tpu'; one of: auto, cpu, sim, cuda"),
        (["--param", "model=nowhere/config.json"], "nowhere/config.json"),
        (
            ["--param", "commit_order=skip", "--param", "workload.scheduler.reserve_output=false"],
            "set workload.scheduler.reserve_output: true",
        ),
        (
            ["--param", "commit_order=skip", "--param", "regime=churn", "--param", "workload.settings={}"],
            "regime churn changes its rows",
        ),
        (["--param", "ring_slots=2^2:9"], "runner.ring_slots: 2^2:9 mixes two kinds of range"),
        (["--param", "ring_slots=1:3,2"], "--param runner.ring_slots: 2 is listed twice; keep one"),
        (["--zip", "ring_slots,seed=1/2,3"], "'3' has not one value for each of runner.ring_slots, workload.seed"),
        (["--case", "decode=32*1@"], "'32*1@' in 'decode=32*1@': expected [N*]Q[@K][c][:D], as 32*1@8192"),
        (["--case", "d=1@8", "--case", "d=1@8"], "--case: 'd=1@8' is listed twice; keep one"),
        (["--case", "d=4*1@32"], "runner.max_num_seqs: 2 is too small for 'd=4*1@32', whose steps have 4 requests"),
        (["--timeout", "0"], "--timeout: 0.0 is no time limit; give seconds above 0"),
        (["--max-failures", "0"], "--max-failures: 0 is too small; at least 1"),
        (["--progress", "xml"], "--progress: xml is unknown; one of auto, bar, plain, json"),
        (["--param", "table_width=2"], "runner.table_width: 2 blocks do not reach max_model_len = 64"),
    ],
)
def test_bad_input_is_one_line_and_two_before_anything_runs(
    perf: Callable[..., object], spec: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    ended = perf("sweep", spec, "--out", tmp_path / "results", *arguments)
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_an_unknown_key_a_missing_file_and_a_closed_folder(
    perf: Callable[..., object], spec: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SPEC + "lauches: 3\n")
    known = "calibration, claim, cost_model, device, measure, runner, workload"
    assert perf("sweep", bad).err == f"perf: {bad}: unknown key 'lauches'; known: {known}\n"
    assert perf("sweep", tmp_path / "no.yaml").err == f"perf: {tmp_path / 'no.yaml'}: no such file; check the path\n"
    ended = perf("sweep", spec, "--out", bad / "below")
    assert ended.code == 2
    assert "cannot be written to" in ended.err
