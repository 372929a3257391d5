"""The gate's promises on simulated machines: few trials here, all of them with `make gate-acceptance`."""

from __future__ import annotations

import os

import pytest
from scipy.stats import beta

from .acceptance import order_alarms, rates, red_sweeps
from .simulator import MACHINES, NOISY, QUIET, SHARED, Machine
from .usual_rules import false_alarms

FULL = int(os.environ.get("STEPSCOPE_GATE_TRIALS", "0"))
TRIALS = FULL or 200
SEED = 20_240


def named(value: object) -> str | None:
    return getattr(value, "name", None)


BY_NAME = pytest.mark.parametrize("machine", MACHINES, ids=named)


def say(what: str, machine: Machine, found: object) -> None:
    if FULL:
        print(f"\n{machine.name:6} {what}: {found}")  # noqa: T201 - the full run is read by a person


@pytest.mark.parametrize(
    ("machine", "mann_whitney", "ratio_5"), [(QUIET, 42, 0.0), (SHARED, 47, 5.1), (NOISY, 49, 18.0)],
    ids=named,
)
def test_the_usual_rules_alarm_on_these_machines_as_they_are_known_to(
    machine: Machine, mann_whitney: float, ratio_5: float
) -> None:
    found = false_alarms(machine, FULL or 700, SEED)
    say("usual rules, % false alarms", machine, found)
    within = 3 if FULL else 4.5  # 700 trials have a standard error of 1.9 points
    assert found["mann_whitney"] == pytest.approx(mann_whitney, abs=within)
    assert found["ratio_5"] == pytest.approx(ratio_5, abs=3)


@BY_NAME
def test_equal_arms_do_not_fail(machine: Machine) -> None:
    found = rates(machine, 0.0, FULL or 400, SEED)
    say("A/A", machine, found)
    assert found.fail <= 0.005
    assert machine is NOISY or found.single_fail <= 0.01
    if FULL:
        failed = round(found.fail * FULL)
        assert beta.ppf(0.975, failed + 1, FULL - failed) <= 0.01  # Clopper-Pearson
    assert 0.88 <= found.covered <= 0.94


@BY_NAME
def test_sweeps_of_equal_arms_do_not_end_red(machine: Machine) -> None:
    found = red_sweeps(machine, (FULL or 100) // 10, SEED)
    say("24-point A/A sweeps red", machine, found)
    assert found <= 0.02


FOUND = [
    (QUIET, 0.03, 0.95), (SHARED, 0.03, 0.95), (QUIET, 0.05, 0.99), (SHARED, 0.05, 0.99), (NOISY, 0.05, 0.97),
    (QUIET, 0.10, 0.999), (SHARED, 0.10, 0.999), (NOISY, 0.10, 0.999),
]  # fmt: skip
QUIETLY = [
    (QUIET, 0.01, 0.01), (SHARED, 0.01, 0.01), (NOISY, 0.01, 0.03),
    (QUIET, -0.05, 0.0), (SHARED, -0.05, 0.0), (NOISY, -0.05, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "effect", "least"), FOUND, ids=named)
def test_a_slowdown_is_found(machine: Machine, effect: float, least: float) -> None:
    found = rates(machine, effect, TRIALS, SEED)
    say(f"{effect:+.0%}", machine, found)
    assert found.fail >= least


@pytest.mark.parametrize(("machine", "effect", "most"), QUIETLY, ids=named)
def test_less_than_the_floor_is_no_regression(machine: Machine, effect: float, most: float) -> None:
    found = rates(machine, effect, TRIALS, SEED)
    say(f"{effect:+.0%}", machine, found)
    assert found.fail <= most


@pytest.mark.parametrize(("machine", "fixed"), [(QUIET, 0.97), (SHARED, 0.50), (NOISY, 0.18)], ids=named)
def test_the_alternating_order_is_what_keeps_a_ramp_out(machine: Machine, fixed: float) -> None:
    """The negative control: the same ramp in a fixed order alarms."""
    alarms = {order: order_alarms(machine, FULL or 300, SEED, fixed=order) for order in (True, False)}
    say("ramp of 10 %, 0.5 % floor, alarms in fixed order / A B B A", machine, alarms)
    assert alarms[True] == pytest.approx(fixed, abs=0.12)
    assert alarms[False] <= 0.08
