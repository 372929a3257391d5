"""All points together, points that one side lacks, and the exit code."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.analysis.gate.equal_arms import EqualArms
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.matching import unmatched
from stepscope.analysis.gate.point import PointData, PointVerdict, judge_point
from stepscope.analysis.gate.suite import holm, judge_suite
from stepscope.analysis.gate.verdict import Reason, Verdict

from .blocks import EQUAL, SLOWER, blocks

LIMITS = Limits()
UNIFORM = (0.0151, 0.0149, 0.0152, 0.0148, 0.0150)


def point(name: str, effects: tuple = EQUAL, fresh: tuple | None = None) -> PointVerdict:
    confirmation = None if fresh is None else blocks(fresh, seed=1)
    return judge_point(PointData(name, "period_ns", blocks(effects), confirmation), 0.003, LIMITS)


def test_all_points_that_pass_are_a_pass():
    suite = judge_suite([point("a"), point("b")], LIMITS)
    assert (suite.verdict, suite.exit_code, suite.confirm()) == (Verdict.PASS, 0, ())
    assert suite.geomeans["period_ns"].effect == pytest.approx(0.0001, abs=3e-4)


def test_one_confirmed_point_fails_the_suite():
    suite = judge_suite([point("a"), point("b", SLOWER, SLOWER)], LIMITS)
    assert (suite.verdict, suite.exit_code) == (Verdict.FAIL, 1)
    assert suite.reasons == (Reason.CONFIRMED_FRESH,)
    assert suite.holm_p["b", "period_ns"] < 0.001 < suite.holm_p["a", "period_ns"]


def test_a_uniform_slowdown_that_no_point_shows_is_confirmed_by_fresh_launches_of_all():
    points = [point(name, UNIFORM) for name in "abc"]
    assert {found.verdict for found in points} == {Verdict.PASS}
    suite = judge_suite(points, LIMITS)
    assert (suite.verdict, suite.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert suite.confirm() == (("a", "period_ns"), ("b", "period_ns"), ("c", "period_ns"))


@pytest.mark.parametrize(("fresh", "word", "reason"), [
    (UNIFORM, Verdict.FAIL, Reason.ALL_POINTS_SLOWER), (EQUAL, Verdict.PASS, Reason.WITHIN_LIMIT),
])
def test_fresh_launches_of_all_points_decide_a_uniform_slowdown(fresh, word, reason):
    confirmation = {"fresh": blocks(fresh, seed=1)}
    points = [
        judge_point(PointData(name, "period_ns", blocks(UNIFORM), **confirmation), 0.003, LIMITS) for name in "abc"
    ]
    suite = judge_suite(points, LIMITS)
    assert (suite.verdict, suite.geomeans["period_ns"].reason) == (word, reason)


def test_without_a_calibration_all_points_together_cannot_fail_either():
    fresh = blocks(UNIFORM, seed=1)
    points = [judge_point(PointData(name, "period_ns", blocks(UNIFORM), fresh), 0.003, LIMITS) for name in "ab"]
    bare = judge_point(PointData("c", "period_ns", blocks(UNIFORM), fresh), Reason.CALIBRATION_EXPIRED, LIMITS)
    suite = judge_suite([*points, bare], LIMITS)
    assert (suite.verdict, suite.reasons) == (Verdict.INCONCLUSIVE, (Reason.CALIBRATION_EXPIRED,))


def test_all_points_together_are_held_against_what_equal_arms_show_together():
    fresh, equal = blocks(UNIFORM, seed=1), EqualArms(0.003, 20, offset=0.012)
    points = [judge_point(PointData(name, "period_ns", blocks(UNIFORM), fresh), equal, LIMITS) for name in "ab"]
    suite = judge_suite(points, LIMITS)
    assert (suite.verdict, suite.geomeans["period_ns"].reason) == (Verdict.PASS, Reason.WITHIN_LIMIT)


def test_one_point_alone_or_points_of_other_launches_have_no_mean():
    assert judge_suite([point("a", UNIFORM)], LIMITS).geomeans == {}
    assert judge_suite([point("a", UNIFORM), point("b", UNIFORM[:4])], LIMITS).geomeans == {}
    assert set(judge_suite([point("a", UNIFORM), point("b", UNIFORM)], LIMITS).geomeans) == {"period_ns"}


def test_nothing_is_an_error():
    assert judge_suite([], LIMITS).exit_code == 3


ORDER = [
    (Verdict.FAIL, 1), (Verdict.ERROR, 3), (Verdict.INCOMPARABLE, 5), (Verdict.INCONCLUSIVE, 4), (Verdict.PASS, 0),
]


@pytest.mark.parametrize("place", range(len(ORDER)))
def test_the_worst_verdict_speaks_for_all(place):
    points = [PointVerdict(word.value, "m", word, Reason.NOT_MEASURED) for word, _ in reversed(ORDER[place:])]
    assert (judge_suite(points, LIMITS).verdict, judge_suite(points, LIMITS).exit_code) == ORDER[place]


def test_holms_adjustment():
    adjusted = holm(np.array([0.01, 0.04, np.nan, 0.03, 0.9]))
    assert adjusted == pytest.approx([0.04, 0.09, np.nan, 0.09, 0.9], nan_ok=True)
    assert holm(np.array([0.7, 0.6])) == pytest.approx([1.0, 1.0])


def test_points_are_matched_by_id_and_a_lost_one_is_an_error():
    assert unmatched(["a", "b"], ["b", "a"]) == []
    lost, new = unmatched(["a", "b"], ["a", "b2"])
    assert (lost.point, lost.verdict, lost.reason) == ("b", Verdict.ERROR, Reason.NOT_IN_HEAD)
    assert (new.point, new.verdict, new.reason) == ("b2", Verdict.INCOMPARABLE, Reason.NOT_IN_BASE)
    assert unmatched(["a"], ["a", "c"], allow_new=True) == []
    assert unmatched(["a", "b"], ["a", "c"], allow_new=True) == [lost]


@pytest.mark.parametrize(("base", "head", "word", "reason"), [
    (["a"], ["b"], Verdict.INCOMPARABLE, Reason.NO_COMMON_POINTS),
    ([], ["b"], Verdict.INCOMPARABLE, Reason.NO_COMMON_POINTS),
    (["a"], [], Verdict.INCOMPARABLE, Reason.NO_COMMON_POINTS),
    ([], [], Verdict.ERROR, Reason.NOTHING_MEASURED),
])
def test_sides_without_a_common_point_never_pass(base, head, word, reason):
    for allow_new in (True, False):
        (found,) = unmatched(base, head, allow_new=allow_new)
        assert (found.verdict, found.reason) == (word, reason)
