"""The workflow in examples/ is what it says: valid, without rights, pinned, and its command is one that perf takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from stepscope.cli.gate_outputs import Output, parse_outputs
from stepscope.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "examples" / "workflows").glob("*.yml"))


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def workflow(request):
    return yaml.safe_load(request.param.read_text(encoding="utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_is_one():
    assert FILES


def test_it_may_read_and_nothing_else(workflow):
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert "secrets." not in str(workflow)
    assert set(workflow[True]) == {"pull_request"}  # YAML 1.1 reads the key `on` as true; so does every tool around it


def test_actions_are_pinned_to_a_major_version_and_leave_no_credentials(workflow):
    used = [step for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in used)
    checkouts = [step["with"] for step in used if "/checkout@" in step["uses"]]
    assert [step["path"] for step in checkouts] == ["head", "base"]
    assert all(step["persist-credentials"] is False for step in checkouts)


def test_jobs_end_in_time_and_artifacts_are_kept_when_it_is_red(workflow):
    assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())
    kept = next(step for step in steps(workflow) if "/upload-artifact@" in step.get("uses", ""))
    assert kept["if"] == "${{ !cancelled() }}"


def command(workflow):
    (run,) = (step["run"] for step in steps(workflow) if "perf gate" in step.get("run", ""))
    lines = run.replace("\\\n", " ").strip().splitlines()
    assert "|" not in run  # the exit code is the last command's own
    return shlex.split(lines[-1])


def test_its_command_is_one_of_ours(workflow, tmp_path, monkeypatch, capsys):
    program, *arguments = command(workflow)
    assert program == "venv/bin/perf"
    (tmp_path / "gate-out").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    wanted = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--write"]
    outputs = parse_outputs(wanted)
    assert Output("github-summary", None) in outputs
    assert len(outputs) == 10
    # The arms are not here: the command is understood, and says that it finds no checkout.
    assert main(arguments) == 2
    assert "base" in capsys.readouterr().err


def test_no_expression_stands_in_a_script(workflow):
    # A title or a branch in ${{ }} inside `run` would be run.
    assert all("${{" not in step.get("run", "") for step in steps(workflow))
