"""Outputs that take nothing more: one line that names what, an exit code of wrong usage, and no internal error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from stepscope.cli.gate_outputs import _append_summary
from stepscope.cli.main import guarded, main
from stepscope.experiments.files import write_atomically

FULL = Path("/dev/full")
SUMMARY = {"GITHUB_STEP_SUMMARY": str(FULL)}
WRITERS = {"file": lambda: write_atomically(FULL, "text"), "job summary": lambda: _append_summary(None, SUMMARY)}
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


def told(name: object) -> str:
    return f"perf: {name}: No space left on device; make room or choose another path\n"


@contextmanager
def full_stdout() -> Iterator[None]:
    with FULL.open("w") as full, redirect_stdout(full):
        yield


@pytest.mark.parametrize("arguments", [["--help"], ["gate", "plan", "--help"], ["--version"], ["step"]])
def test_a_verb_that_prints(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with full_stdout():
        code = main(arguments)
    assert (code, capsys.readouterr().err) == (2, told("standard output"))


@pytest.mark.parametrize("length", [1, 100_000])
def test_what_is_buffered_until_the_end_counts_as_well(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    with full_stdout():
        code = guarded(lambda: sys.stdout.write("x" * length) and 0)
    assert (code, capsys.readouterr().err) == (2, told("standard output"))


@pytest.mark.parametrize("work", WRITERS.values(), ids=WRITERS)
def test_a_file_of_ours_is_named(
    work: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.reports.gate.summary.render_summary", lambda result, limit: "summary")
    assert (guarded(work), capsys.readouterr().err) == (2, told(FULL))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_what_a_library_could_not_put_aside(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise OSError(number, os.strerror(number))

    # GIVEN an error that names no file, and a standard output that takes what comes
    assert guarded(work) == 2
    ended = capsys.readouterr().err
    assert ended == f"perf: a temporary file: {os.strerror(number)}; make room or choose another path\n"


def test_where_nothing_can_be_said_the_exit_code_speaks(tmp_path: Path) -> None:
    program = "import sys; from stepscope.cli.main import main; sys.exit(main(['gate', 'run']))"
    with FULL.open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stderr=full, cwd=tmp_path, check=False)
    assert done.returncode == 2
