"""A Ctrl-C that broke into an `exec`, as into an import, ends with 130 too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = """
import sys
from stepscope.cli import main as module
def app(*_, **__):
    exec("raise KeyboardInterrupt")
module.app = app
{mutant}
sys.argv = ["perf", "sweep"]
sys.exit(module.main())
"""


@pytest.mark.parametrize(("mutant", "code"), [("", 130), ("module.end_interrupted = lambda: None", -2)])
def test_it_ends_with_its_exit_code(mutant: str, code: int, tmp_path: Path) -> None:
    # GIVEN a verb that is interrupted within an exec: CPython remembers it, and ends by the signal (the mutant)
    (tmp_path / "program.py").write_text(BROKEN.format(mutant=mutant))
    command = [sys.executable, "-m", "program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "perf: interrupted\n")
