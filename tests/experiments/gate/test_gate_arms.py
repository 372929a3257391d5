"""What an arm is, and how its code is made importable."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.gate.arms import OURS, PACKAGE, commit_of, parse_arm, program
from stepscope.experiments.gate.points import Blocks, points_of
from stepscope.experiments.gate.same_work import why_incomparable

from .in_process import OPENED

ROOT = Path(__file__).resolve().parents[3]


def test_words_add_up():
    arm = parse_arm("head", ["checkout:v2", "python:python3", "set:commit_order=last", "set:runner.staging=pageable"])
    assert (arm.checkout, arm.python, arm.spec) == ("v2", "python3", None)
    assert arm.switches == {"runner.commit_order": "last", "runner.staging": "pageable"}
    assert arm.title == "checkout:v2 python:python3 set:commit_order=last set:runner.staging=pageable"
    assert parse_arm("base", []).title == "as installed"


@pytest.mark.parametrize(("word", "named"), [
    ("v2", "--head v2: expected checkout:..."), ("branch:v2", "--head branch:v2: expected"),
    ("checkout:", "--head checkout:: expected"), ("set:commit_order", "--head set:commit_order: expected"),
    ("set:commit_order=first,last", "an arm has one value"), ("set:no_such=1", "no_such"),
])  # fmt: skip
def test_a_word_that_is_none_is_refused_by_name(word, named):
    with pytest.raises(UsageError) as refused:
        parse_arm("head", [word])
    assert named in str(refused.value)


def test_one_of_a_kind():
    with pytest.raises(UsageError, match="python is given twice"):
        parse_arm("base", ["python:a", "python:b"])


def test_our_own_code_is_linked_before_everything_else(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    made = program(parse_arm("base", []), tmp_path)
    assert (made.python, made.package) == (sys.executable, OURS)
    assert (tmp_path / "view" / PACKAGE).resolve() == OURS
    assert made.environment()["PYTHONPATH"] == f"{tmp_path / 'view'}:/somewhere"


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no experiments/session"):
        program(parse_arm("head", [f"checkout:{tmp_path}"]), tmp_path)


def without_filters(patch):
    """As in Python before 3.10.12 and 3.11.4."""
    unpack = tarfile.TarFile.extractall
    patch.delattr(tarfile, "data_filter", raising=False)
    patch.setattr(tarfile.TarFile, "extractall", lambda self, path: unpack(self, path))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("filters", [True, False])
def test_a_revision_is_unpacked_from_the_repository_here(tmp_path, monkeypatch, filters):
    # GIVEN a repository whose first commit holds what the second one has lost
    repository, scratch = tmp_path / "repository", tmp_path / "scratch"
    (repository / "experiments").mkdir(parents=True)
    scratch.mkdir()
    (repository / "experiments" / "session.py").write_text("OLD = True\n")
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"], ["tag", "old"],
                    ["rm", "-q", "experiments/session.py"], ["commit", "-q", "-m", "two"]):  # fmt: skip
        subprocess.run([*git, *command], check=True)
    monkeypatch.chdir(repository)
    if not filters:
        without_filters(monkeypatch)
    # WHEN the first is an arm
    made = program(parse_arm("base", ["checkout:old"]), scratch)
    # THEN its tree is there, and the repository is as it was
    assert (made.package / "experiments" / "session.py").read_text() == "OLD = True\n"
    told = [subprocess.run([*git, "rev-parse", word], check=True, capture_output=True, text=True).stdout.strip()
            for word in ("old", "HEAD")]  # fmt: skip
    assert (made.commit, commit_of(repository)) == tuple(told)
    (repository / "new.py").write_text("")
    assert commit_of(repository) == f"{told[1]}-dirty"
    assert commit_of(repository / "experiments") is None
    (repository / "new.py").unlink()
    assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout == b""
    with pytest.raises(UsageError, match="neither a folder nor a revision"):
        program(parse_arm("base", ["checkout:no-such-revision"]), tmp_path)


def test_an_interpreter_must_be_one(tmp_path):
    with pytest.raises(UsageError, match="is no program"):
        program(parse_arm("base", ["python:/no/such/python"]), tmp_path)


def test_an_interpreter_without_the_package_gets_ours(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    made = program(parse_arm("base", [f"python:{bare}"]), tmp_path / "scratch")
    assert (made.python, made.package) == (str(bare), OURS)


def test_points_are_named_by_what_their_axes_chose(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("workload: {regime: steady}\nmeasure: {warmup_steps: 2, steps: 9, repeats: 3}\n"
                    "grid: {runner.commit_order: [first, last], workload.settings.num_reqs: [8]}\n")
    points = points_of(parse_arm("base", ["set:staging=pageable"]), spec, ["seed=3"], Blocks(50, 3).launch_steps(6))
    assert list(points) == ["commit_order=first,num_reqs=8", "commit_order=last,num_reqs=8"]
    tree = points["commit_order=last,num_reqs=8"]
    assert tree["runner"] == {"commit_order": "last", "staging": "pageable"}
    assert tree["measure"] == {"steps": 6 * 54, "warmup_steps": 2}
    assert tree["workload"]["seed"] == 3


def test_excluded_points_are_those_of_a_sweep_defaults_included(tmp_path):
    spec = tmp_path / "spec.yaml"
    text = "grid: {workload.regime: [steady, churn]}\nexclude: [{workload.regime: churn, runner.staging: %s}]\n"
    spec.write_text(text % "pinned_ring")  # which nobody states: it is the default
    assert list(points_of(parse_arm("base", []), spec, [], 10)) == ["regime=steady"]
    assert len(points_of(parse_arm("base", ["set:staging=pageable"]), spec, [], 10)) == 2
    spec.write_text(text % "no_such")
    with pytest.raises(UsageError, match="matches no point"):
        points_of(parse_arm("base", []), spec, [], 10)


def test_the_default_points():
    assert list(points_of(parse_arm("base", []), None, [], 10)) == ["num_reqs=16", "num_reqs=64"]


def test_blocks_have_a_least_length():
    with pytest.raises(UsageError, match="steps is 9"):
        Blocks(9)


@pytest.mark.parametrize(("changed", "said"), [
    ({"device": "sim", "calibration": "h200"}, "gpu: NVIDIA H200 / none (sim, calibration h200)"),
    ({"environment": {"gpu_name": "NVIDIA L4", "gpu_driver": "550.54"}}, "gpu: NVIDIA H200 / NVIDIA L4"),
    ({"environment": {"gpu_driver": "550.54"}}, "gpu: NVIDIA H200 / unknown"),
    ({"parameters": {"workload": {"regime": "churn"}}}, "workload.regime: steady / churn"),
])  # fmt: skip
def test_what_must_be_alike(changed, said):
    _, detail = why_incomparable({"base": OPENED, "head": {**OPENED, **changed}})
    assert detail == said


def test_a_field_that_one_version_does_not_know_is_no_difference():
    newer = {**OPENED, "parameters": {"workload": {"regime": "steady", "case": None}}}
    assert why_incomparable({"base": OPENED, "head": newer}) is None


def test_another_python_or_torch_may_be_what_is_compared():
    other = {**OPENED, "environment": {**OPENED["environment"], "python": "3.13.0", "torch": "2.9"}}
    assert why_incomparable({"base": OPENED, "head": other}) is None
