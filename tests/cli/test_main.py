"""The face of the command: help, exit codes, one line an error, the other perf."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stepscope import errors
from stepscope.cli import linux_perf
from stepscope.cli.main import _without_debug, guarded, main

VERBS = ("sweep", "run", "step", "report", "doctor")


def test_help_names_every_verb(perf: Callable[..., object]) -> None:
    ended = perf("--help")
    assert ended.code == 0
    assert [verb for verb in VERBS if f"  {verb} " not in ended.out] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, perf: Callable[..., object]) -> None:
    ended = perf(verb, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: perf {verb}" in ended.out


def test_help_answers_at_once() -> None:
    # GIVEN processor time of whole processes, the best of five: a machine that is busy with other things cannot fail it
    def seconds() -> float:
        before = os.times()
        command = [sys.executable, "-c", "import sys; from stepscope.cli.main import main; sys.exit(main(['--help']))"]
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(5)) < 0.3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("bad"), 2),
        (errors.MeasurementError("bad"), 3),
        (errors.Incomparable("bad"), 5),
        (errors.BrokenInvariant("rows", 3, "bad"), 1),
        (errors.StepscopeError("bad"), 70),
        (OSError(28, "No space left on device", "out/plan.json"), 2),
        (OSError("no path in it"), 70),
        (MemoryError("Unable to allocate 7.28 TiB"), 2),
        (ValueError("bad"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors_become_exit_codes_and_one_line(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    assert guarded(work) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("perf: ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "/nowhere/at/all", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_debug_behind_two_dashes_belongs_to_the_captured_command() -> None:
    # GIVEN a command that knows --debug itself WHEN it is captured THEN it gets it, and we do not
    captured = ["capture", "--", "python", "serve.py", "--debug"]
    assert _without_debug(captured) == (captured, False)
    assert _without_debug(["--debug", *captured]) == (captured, True)
    assert _without_debug(["report", "x", "--debug"]) == (["report", "x"], True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["swep"], "No such command 'swep'"),
        (["sweep", "--dryrun"], "No such option: --dryrun"),
        (["report"], "Missing argument"),
        (["report", "x", "--format", "pdf"], "'pdf'"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_two(
    arguments: list[str], words: str, perf: Callable[..., object]
) -> None:
    ended = perf(*arguments)
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_without_a_command_the_help_is_shown_and_one_line_says_what_is_missing(perf: Callable[..., object]) -> None:
    ended = perf()
    assert (ended.code, ended.err) == (2, "perf: name a command, one of those above\n")
    assert ended.out == perf("--help").out


def test_ctrl_c_before_a_command_has_anything_to_keep_is_told(
    monkeypatch: pytest.MonkeyPatch, perf: Callable[..., object]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepscope.experiments.sweep.plan_sweep", interrupted)
    ended = perf("sweep", "--dry-run")
    assert (ended.code, ended.err) == (130, "perf: interrupted\n")


@pytest.mark.parametrize("length", [300, 5000])
def test_a_folder_name_that_no_system_takes_is_unusable_input(
    length: int, tmp_path: Path, perf: Callable[..., object]
) -> None:
    out = tmp_path.joinpath(*["a" * min(length, 200)] * (length // 200), "a" * 300)
    ended = perf("run", "--regime", "steady", "--steps", "1", "--device", "cpu", "--out", out)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "File name too long" in ended.err


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a\0b"])
@pytest.mark.parametrize("verb", ["report", "sweep", "step", "run"])
def test_a_file_name_that_no_system_takes_is_unusable_input(name: str, verb: str, perf: Callable[..., object]) -> None:
    ended = perf(verb, name)
    assert (ended.code, ended.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("verb", ["record", "stat", "top"])
def test_the_other_perfs_verbs_say_which_program_this_is(verb: str, perf: Callable[..., object]) -> None:
    ended = perf(verb, "-a", "sleep", "1")
    assert ended.code == 2
    assert f"'{verb}' is a verb of the Linux profiler perf; this perf is stepscope" in ended.err


def test_the_other_perfs_data_is_recognised_by_its_magic(tmp_path: Path, perf: Callable[..., object]) -> None:
    file = tmp_path / "some.data"
    file.write_bytes(b"PERFILE2" + bytes(64))
    ended = perf("report", file)
    assert (ended.code, "was recorded by the Linux profiler perf" in ended.err) == (2, True)


def test_where_the_other_perf_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN our own perf first on the PATH and another one behind it
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "perf").write_text("#!/bin/sh\n")
        (tmp_path / folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'ours'}:{tmp_path / 'theirs'}")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "ours" / "perf")])
    assert f"The other lies at {tmp_path / 'theirs' / 'perf'}" in (linux_perf.explain(["record"]) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "ours"))
    assert "is not on this PATH" in (linux_perf.explain(["record"]) or "")


def test_our_own_command_lines_are_left_alone() -> None:
    for arguments in ([], ["report", "out/run-1"], ["sweep"], ["run", "--trace", "perf.csv"]):
        assert linux_perf.explain(arguments) is None
