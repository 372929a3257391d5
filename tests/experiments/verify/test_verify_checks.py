"""Every check passes as it is, and fails with each of its mutants; what needs a GPU says so."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.verify.check import Setting, exact, replaced, within
from stepscope.experiments.verify.run import CHECKS, GROUPS, chosen_checks, run_check, with_mutant

DOCUMENT = Path(__file__).parents[3] / "docs/verify.md"
QUICK = Setting(device="sim", seed=0, quick=True)
HERE = [check for check in CHECKS if not check.needs or "sim" in check.needs]
ELSEWHERE = [check for check in CHECKS if check not in HERE]


@pytest.mark.parametrize("check", HERE, ids=lambda check: f"{check.group}-{check.name}")
def test_it_passes(check):
    result = run_check(check, QUICK)
    assert (result.verdict, result.reason) == ("passed", ""), [f for f in result.findings if not f.passed]
    assert result.findings


@pytest.mark.parametrize(
    ("check", "mutant"),
    [pytest.param(check, name, id=f"{check.name}-{name}") for check in HERE for name in check.mutants],
)
def test_its_mutant_fails(check, mutant):
    assert run_check(check, QUICK, mutant).verdict == "failed"


def test_a_mutant_leaves_nothing_behind():
    from stepscope.instrumentation.queues import QueueModel

    before = QueueModel.next_start
    (check,) = with_mutant(CHECKS, "lanes_forgotten")
    run_check(check, QUICK, "lanes_forgotten")
    assert QueueModel.next_start is before
    assert run_check(check, QUICK).verdict == "passed"


def test_every_check_ships_with_a_mutant():
    assert all(check.mutants for check in CHECKS)
    assert {check.group for check in CHECKS} == set(GROUPS)


def test_every_point_of_the_document_names_its_checks():
    rows = re.findall(r"^\| (\d+) \| .*? \| ([a-z_, ]+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    told = {int(point): set(names.split(", ")) for point, names in rows}
    assert list(told) == list(range(1, 16))
    assert {point: {check.name for check in CHECKS if check.point == point} for point in told} == told
    assert {check.point for check in CHECKS} == set(told)


def test_a_mutant_that_cannot_be_planted_is_not_found():
    (queues,) = (check for check in CHECKS if check.name == "queues")
    gone = replace(queues, mutants={"gone": replaced("experiments.verify.overlap", "renamed", lambda whole: whole)})
    with pytest.raises(KeyError, match="renamed"):
        run_check(gone, QUICK, "gone")
    # AND a check without findings has found nothing out
    assert run_check(replace(queues, run=lambda setting: []), QUICK).verdict == "failed"


@pytest.mark.parametrize("check", ELSEWHERE, ids=lambda check: check.name)
def test_what_needs_a_gpu_says_so(check):
    result = run_check(check, QUICK)
    assert result.verdict == "skipped"
    assert result.reason.startswith("needs cuda: ")
    # AND its mutants name things that exist
    for plant in check.mutants.values():
        with plant():
            pass


def test_another_seed_plants_something_else():
    (queues,) = (check for check in CHECKS if check.name == "queues")
    assert run_check(queues, Setting(device="cpu", seed=7, quick=True)).verdict == "passed"
    assert Setting(device="cpu", seed=7).random("x").random() != Setting(device="cpu", seed=8).random("x").random()


def test_what_breaks_down_has_not_passed():
    (queues,) = (check for check in CHECKS if check.name == "queues")
    with replaced("experiments.verify.overlap", "replay", lambda whole: lambda *a: 1 / 0)():
        result = run_check(queues, QUICK)
    assert (result.verdict, result.reason) == ("failed", "ZeroDivisionError: division by zero")


def test_findings():
    assert exact("x", 3, 3).passed
    assert not exact("x", 3, 4).passed
    assert within("x", 1.0, 1.0, 2.0).passed
    assert not within("x", 2.1, 1.0, 2.0).passed


def test_unknown_names():
    with pytest.raises(UsageError, match=r"verify.*recoder"):
        chosen_checks(["overlap", "recoder"])
    with pytest.raises(UsageError, match="--mutant"):
        with_mutant(chosen_checks(["overlap"]), "through_floats")


def test_groups_and_checks_may_be_named_together():
    assert {check.name for check in chosen_checks(["padding", "bounds"])} == {
        "bounds", "optimum", "held_out", "waste", "tokens", "modelled", "measured",
    }  # fmt: skip
    assert chosen_checks(["all"]) == CHECKS
    assert len({check.name for check in CHECKS}) == len(CHECKS)
