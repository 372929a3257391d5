"""What an A/A calibration tells beside its spread: its size, a better place for one arm, launches that remember."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.analysis.gate.effects import estimate
from stepscope.analysis.gate.equal_arms import EqualArms, equal_arms, may_remember
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.pairs import PairBlocks
from stepscope.analysis.gate.point import PointData, judge_point
from stepscope.analysis.gate.stages import first_stage, second_stage
from stepscope.analysis.gate.verdict import Reason, Verdict

from .blocks import alternating

LIMITS = Limits()


def test_equal_arms_on_their_own_show_no_offset_and_no_memory():
    found = equal_arms(np.random.default_rng(5).normal(0, 0.01, (4000, 20)))
    assert np.mean(found.offset != 0) < 0.003
    assert np.mean(found.memory > 1) < 0.02
    assert float(np.median(found.sd)) == pytest.approx(0.01, rel=0.03)


def test_a_place_that_is_better_for_one_arm_does_not_make_the_other_a_regression():
    """GIVEN equal arms of which head is 3 % slower, here and in the calibration THEN it is none; + 8 % more is one"""
    rng = np.random.default_rng(6)
    equal = equal_arms(rng.normal(0.03, 0.003, 20))
    assert equal.offset == pytest.approx(0.03, abs=0.002)
    first, fresh = rng.normal(0.03, 0.003, (2, 500, 5))
    again, together, _ = second_stage(first, fresh, equal, LIMITS)
    assert not (again | together).any()
    flag, good = first_stage(first + np.log(1.08), equal, LIMITS)
    assert flag.all()
    assert not good.any()
    faster = equal_arms(rng.normal(-0.03, 0.003, 20))
    assert not first_stage(first, faster, LIMITS)[1].any()  # seen 3 % slower where equal arms look faster: no pass


def test_launches_that_remember_raise_the_floor():
    rng, rho = np.random.default_rng(7), 0.8
    effects = np.empty((300, 20))
    effects[:, 0] = 0.02 * rng.standard_normal(300)
    for launch in range(1, 20):
        effects[:, launch] = rho * effects[:, launch - 1] + 0.02 * np.sqrt(1 - rho**2) * rng.standard_normal(300)
    found = equal_arms(effects)
    assert np.mean(found.memory > 1.5) > 0.7
    remembered = EqualArms(0.02, 20, memory=2.0)
    assert remembered.floor(5, LIMITS) == pytest.approx(2 * EqualArms(0.02, 20).floor(5, LIMITS))


def test_a_memory_that_twenty_launches_only_hint_at_asks_for_more():
    """GIVEN offsets that last, under a noise of two thirds of their size, at two points THEN most calibrations hint at
    them, and of equal arms on their own one in ten does"""
    rng, rho = np.random.default_rng(9), 0.8
    own = rng.normal(0, 0.01, (2, 400, 2, 20))
    lasting = np.empty((400, 2, 20))
    lasting[..., 0] = 0.015 * rng.standard_normal((400, 2))
    for launch in range(1, 20):
        fresh = rng.standard_normal((400, 2))
        lasting[..., launch] = rho * lasting[..., launch - 1] + 0.015 * np.sqrt(1 - rho**2) * fresh
    assert np.mean([may_remember(one) for one in own[0] + lasting]) > 0.7
    assert np.mean([may_remember(one) for one in own[1]]) < 0.12
    assert not may_remember(np.zeros((2, 20)))


def test_the_calibrations_own_size_decides_whether_a_run_is_noisier():
    """sd 2.6 times the calibration's: surely more than 200 launches showed, not surely more than 20 did."""
    seen = estimate(0.026 * np.array([-1.2, -0.6, 0.1, 0.5, 1.2]) / np.std([-1.2, -0.6, 0.1, 0.5, 1.2], ddof=1))
    of = {count: float(EqualArms(0.01, count).floor(5, LIMITS, seen)) for count in (20, 200)}
    assert of[20] == pytest.approx(np.log(1.02))
    assert of[200] == pytest.approx(3 * 0.026 / np.sqrt(5))


def test_a_clock_whose_tick_is_worth_a_regression_decides_nothing():
    """GIVEN steps of 20.45 ms, 0.5 % longer in head, and a clock of 1 ms: all of head's blocks are a tick longer"""
    rng = np.random.default_rng(8)
    base, head = (level * np.exp(rng.normal(0, 0.002, (5, 6))) for level in (20.45, 20.45 * 1.005))
    for tick, said in ((1.0, (Verdict.INCONCLUSIVE, Reason.COARSE_CLOCK)), (0.1, (Verdict.PASS, Reason.WITHIN_LIMIT))):
        ticks = [np.round(arm / tick) * tick for arm in (base, head)]
        pairs = PairBlocks(*ticks, alternating(5, 6), np.zeros((5, 6), bool))
        found = judge_point(PointData("p", "period_ns", pairs), 0.003, LIMITS)
        assert (found.verdict, found.reason) == said


def test_a_part_that_is_mostly_nothing_is_no_coarse_clock():
    base, head = np.zeros((5, 6)), np.zeros((5, 6))
    base[1, 2] = head[3, 4] = 50.0
    period = np.full((5, 6), 1000.0)
    pairs = PairBlocks(base, head, alternating(5, 6), np.zeros((5, 6), bool), period)
    found = judge_point(PointData("p", "exposed_p50_ns", pairs), 0.003, LIMITS)
    assert found.reason is Reason.WITHIN_LIMIT
