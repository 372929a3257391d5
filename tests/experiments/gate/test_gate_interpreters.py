"""Two interpreters side by side: each arm's process has its own, with its own packages."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest
from stepscope.experiments.gate import process
from stepscope.experiments.gate.arms import OURS, parse_arm
from stepscope.experiments.gate.launch import resident
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.request import GateRequest

TELLS_ITSELF = """
import json, os, sys
from pathlib import Path
def say(**words):
    print(json.dumps({"ok": True, **words}), flush=True)
def main():
    package = Path(sys.modules["stepscope"].__file__).resolve().parent
    say(package=str(package))
    for line in sys.stdin:
        if json.loads(line)["do"] == "end":
            return 0
        say(prefix=sys.prefix, package=str(package), view=os.environ.get("PYTHONPATH", ""))
"""


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """Another environment's interpreter, a link to ours, without a package."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(tmp_path / "other")
    return tmp_path / "other" / "bin" / "python"


@pytest.fixture
def told(tmp_path, monkeypatch, other_python):
    """told() → arm → what its process says of itself; head runs in the other environment."""
    (tmp_path / "worker.py").write_text(TELLS_ITSELF)
    (tmp_path / "spec.yaml").write_text("workload: {regime: steady}\n")
    monkeypatch.setattr(process, "WORKER", tmp_path / "worker.py")

    def call():
        arms = (parse_arm("base", []), parse_arm("head", [f"python:{other_python}"]))
        with benched(GateRequest(arms, tmp_path / "spec.yaml")) as bench, resident(bench, 0) as processes:
            return {arm: running.ask({"do": "tell"}, 30) for arm, running in processes.items()}

    return call


def test_an_arm_runs_in_its_interpreter_with_what_is_installed_there(told, tmp_path, other_python, monkeypatch):
    # GIVEN another environment with a package of its own, and a path that must not reach it
    site = next((tmp_path / "other" / "lib").glob("python*/site-packages"))
    (site / "stepscope" / "experiments").mkdir(parents=True)
    for folder in (site / "stepscope", site / "stepscope" / "experiments"):
        (folder / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/no/such/folder", os.environ.get("PYTHONPATH", "")]))

    # WHEN both arms are resident THEN each says its own interpreter and package
    found = told()
    assert (found["base"]["prefix"], found["base"]["package"]) == (sys.prefix, str(OURS))
    assert found["head"]["prefix"] == str(tmp_path / "other")
    assert found["head"]["package"] == str((site / "stepscope").resolve())
    assert found["head"]["view"] == ""


def test_an_interpreter_without_the_package_runs_ours(told, tmp_path):
    found = told()
    assert (found["head"]["prefix"], found["head"]["package"]) == (str(tmp_path / "other"), str(OURS))
    assert found["base"]["prefix"] == sys.prefix
