"""What the telemetry spoils goes in pairs, and the order of what is left does not decide."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.analysis.gate.conditions import Conditions, spoiled_by
from stepscope.analysis.gate.effects import estimate, launch_effects, order_effects
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.point import PointData, judge_point
from stepscope.analysis.gate.verdict import Reason, Verdict

from .blocks import EQUAL, alternating, blocks


def dropped(*places: tuple[int, int]) -> np.ndarray:
    found = np.zeros((5, 6), dtype=bool)
    for place in places:
        found[place] = True
    return found


@pytest.mark.parametrize(("bits", "drops"), [(0x4, True), (0x8, True), (0x20, True), (0x40, True), (0x80, True),
                                             (0x1, False), (0x2, False), (0x10, False), (0x100, False)])
def test_a_pair_goes_whichever_arm_was_throttled(bits, drops):
    throttled, quiet = Conditions(throttle=bits), Conditions(throttle=0)
    reason = "device throttled" if drops else None
    assert spoiled_by(throttled, quiet) == spoiled_by(quiet, throttled) == reason


def test_a_slow_clock_of_one_arm_does_not_fail_where_telemetry_saw_it():
    whole = blocks()
    head, places = whole.head.copy(), [(launch, pair) for launch in range(5) for pair in range(6)]
    for place in places:
        head[place] *= 1.15
    all_slow = blocks(head=head, dropped=dropped(*places))
    found = judge_point(PointData("p", "m", all_slow), 0.003, Limits())
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, Reason.NO_VALID_PAIRS)
    few = whole.head.copy()
    few[0, :3] *= 1.15
    left = blocks(head=few, dropped=dropped((0, 0), (0, 1), (0, 2)))
    found = judge_point(PointData("p", "m", left), 0.003, Limits())
    assert (found.verdict, found.figures.dropped_pairs) == (Verdict.PASS, 3)


def test_more_than_a_quarter_dropped_is_no_measurement():
    gone = dropped(*((launch, pair) for launch in range(4) for pair in range(2)))
    found = judge_point(PointData("p", "m", blocks(dropped=gone)), 0.003, Limits())
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, Reason.TOO_MANY_DROPPED)


def test_drops_of_one_order_do_not_let_a_ramp_in():
    # GIVEN equal arms on a machine that slows down by 1 % from block to block
    order = alternating(1, 6)
    level = 0.01 * np.arange(12).reshape(1, 6, 2)
    differences = np.where(order, level[..., 0] - level[..., 1], level[..., 1] - level[..., 0])
    assert launch_effects(differences, order) == pytest.approx([0.0])
    # WHEN two of the three pairs A B are dropped THEN the two orders still weigh the same
    differences[0, [0, 2]] = np.nan
    assert np.nanmedian(differences) == pytest.approx(-0.01)
    assert launch_effects(differences, order) == pytest.approx([0.0])
    assert order_effects(differences, order) == pytest.approx([0.01])


def test_a_launch_with_too_few_pairs_or_one_order_left_is_lost():
    order = alternating(2, 6)
    differences = np.zeros((2, 6))
    differences[0, :4] = np.nan
    differences[1, [0, 2, 4]] = np.nan
    assert np.isnan(launch_effects(differences, order)).all()


def test_bounds_are_students():
    found = estimate(np.array(EQUAL))
    assert found.mean == pytest.approx(np.mean(EQUAL))
    assert found.bound(0.95) - found.mean == pytest.approx(2.1318467863 * np.std(EQUAL, ddof=1) / np.sqrt(5))
    assert np.isnan(estimate(np.array([0.01])).bound(0.95))
    lost = estimate(np.array([*EQUAL, np.nan]))
    assert (lost.launches, lost.mean) == (5, pytest.approx(np.mean(EQUAL)))
