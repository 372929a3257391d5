"""perf run and perf report: one point from a spec, a regime or a trace; its recording, page and text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,12,3
2023-11-16 18:17:04.0319600,30,1
2023-11-16 18:17:04.0781490,7,5
2023-11-16 18:17:09.0000000,9,2
"""
SIZES = ["--param", "max_num_seqs=4", "--param", "max_num_batched_tokens=16", "--param", "block_size=4",
         "--param", "num_blocks=256"]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "azure.csv"
    path.write_text(TRACE)
    return path


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_a_trace_is_replayed_to_the_end(perf: Callable[..., object], trace: Path, tmp_path: Path, device: str) -> None:
    out = tmp_path / "run"
    ended = perf(
        "run",
        "--trace",
        trace,
        "--limit",
        3,
        "--speed",
        8,
        "--check",
        "every",
        "--device",
        device,
        "--out",
        out,
        *SIZES,
    )
    assert ended.code == 0, ended.err
    assert "answered 3 of 3 requests" in ended.out
    assert "9 of 9 expected tokens (stopped: answered)" in ended.out
    assert "0 broken" in ended.out
    assert ended.out.splitlines()[-1] == f"report: {out / 'report.html'}"
    assert ("modelled" in ended.out) == (device == "sim")
    record = json.loads((out / "summary.json").read_text())
    assert record["parameters"]["workload"]["trace"]["speed"] == 8
    assert record["outcome"]["tokens_got"] == 9

    # AND what lies there can be reported again, by the folder, its recording, or a file of it
    for path in (out, out / "recording" / "recording.json"):
        assert json.loads(perf("report", path, "--format", "json").out)["kind"] == "recording"
    page = perf("report", out, "-o", tmp_path / "page.html")
    assert page.out == f"{tmp_path / 'page.html'}\n"
    assert (tmp_path / "page.html").read_text().startswith("<!")


def test_a_folder_of_runs_gets_a_page_each_and_an_index(
    perf: Callable[..., object], trace: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        perf("run", "--trace", trace, "--limit", 1, "--device", "cpu", "--out", tmp_path / "runs" / name, *SIZES)
    (tmp_path / "runs" / "three").mkdir()
    (tmp_path / "runs" / "three" / "recording.json").write_text("{")
    ended = perf("report", tmp_path / "runs")
    assert (ended.code, ended.out) == (0, f"{tmp_path / 'runs' / 'report.html'}\n")
    assert sorted(path.name for path in (tmp_path / "runs").glob("*.html")) == ["one.html", "report.html", "two.html"]
    index = json.loads(perf("report", tmp_path / "runs", "--format", "json").out)
    assert [bool(entry["error"]) for entry in index["content"]] == [False, True, False]


def test_without_a_source_the_regime_steady_runs(perf: Callable[..., object], tmp_path: Path) -> None:
    ended = perf(
        "run", "--steps", 2, "--device", "cpu", "--out", tmp_path / "run", "--param", "workload.settings.num_reqs=2"
    )
    assert ended.code == 0, ended.err
    parameters = json.loads((tmp_path / "run" / "summary.json").read_text())["parameters"]
    assert (parameters["workload"]["regime"], parameters["measure"]["steps"]) == ("steady", 2)


def test_a_recording_is_replaced_by_request_only(perf: Callable[..., object], tmp_path: Path) -> None:
    # GIVEN a folder with a run
    def again(steps: int, *more: str) -> object:
        sizes = ("--device", "cpu", "--param", "workload.settings.num_reqs=2")
        return perf("run", "--steps", steps, "--out", tmp_path / "run", *sizes, *more)

    assert again(2).code == 0
    kept = (tmp_path / "run" / "summary.json").read_bytes()
    # WHEN another run is sent there
    refused = again(3)
    # THEN it is refused in one line and nothing has changed
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "holds a recording already; choose another --out, or replace it with --force" in refused.err
    assert (tmp_path / "run" / "summary.json").read_bytes() == kept
    # AND with --force it takes the place of the first
    assert again(3, "--force").code == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["parameters"]["measure"]["steps"] == 3


def test_a_sweep_is_never_replaced_by_a_run(perf: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    refused = perf("run", "--steps", 1, "--device", "cpu", "--out", tmp_path, "--force")
    assert (refused.code, "holds a sweep" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trace", "no.csv"], "no.csv"),
        (["--limit", "3"], "--limit, --speed: belong to a trace"),
        (["--regime", "stedy"], "regime 'stedy' is unknown"),
        (["--check", "always"], "runner.check: Invalid enum value 'always'; one of: off, sample, every"),
        (["--param", "block_size=4,8"], "perf run measures one point"),
        (["--param", "block_size=0"], "block_size"),
        (["no.yaml"], "no.yaml: no such file"),
        (["--cost-model", "gpt-2"], "cost model 'gpt-2'"),
    ],
)
def test_bad_input_is_one_line(perf: Callable[..., object], tmp_path: Path, arguments: list[str], words: str) -> None:
    ended = perf("run", "--out", tmp_path / "run", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err


def test_a_prompt_that_does_not_fit_is_named(perf: Callable[..., object], trace: Path, tmp_path: Path) -> None:
    ended = perf("run", "--trace", trace, "--out", tmp_path / "run", "--param", "max_model_len=30", *SIZES)
    assert ended.code == 2
    assert "request t1: its prompt of 30 tokens leaves no room" in ended.err


def test_a_trace_on_the_command_line_takes_the_place_of_the_specs_regime(
    perf: Callable[..., object], trace: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "mine.yaml"
    spec.write_text("workload: {regime: steady, settings: {num_reqs: 2}}\ndevice: cpu\n")
    ended = perf("run", spec, "--trace", trace, "--limit", 1, "--out", tmp_path / "run", *SIZES)
    assert ended.code == 0, ended.err
    assert "answered 1 of 1 requests" in ended.out


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file or folder"),
        (lambda path: path.mkdir(), "holds no recording (recording.json), no sweep (plan.json)"),
        (lambda path: path.write_text("x"), "is no recording and no capture; give the folder"),
        (lambda path: (path.mkdir(), (path / "plan.json").write_text("{}")), "is not a sweep's plan.json"),
        (lambda path: (path.mkdir(), (path / "recording.json").write_text("{")), "recording.json: not valid JSON"),
    ],
    ids=["nothing", "empty", "file", "plan", "recording"],
)
def test_a_path_that_holds_nothing_of_ours(
    perf: Callable[..., object], tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    make(tmp_path / "what")
    ended = perf("report", tmp_path / "what")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err
