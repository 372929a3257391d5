"""The verdict of a point: stages, and every way in which a measurement is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stepscope.analysis.gate.checks import fault
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.pairs import PairBlocks
from stepscope.analysis.gate.point import PointData, judge_point
from stepscope.analysis.gate.stages import first_stage
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.errors import UsageError

from .blocks import EQUAL, SLOWER, blocks

LIMITS = Limits()
SD = 0.003


def verdict(first: PairBlocks | None, fresh: PairBlocks | None = None, sd: float | Reason = SD) -> tuple:
    found = judge_point(PointData("p", "period_ns", first, fresh), sd, LIMITS)
    return found.verdict, found.reason


def test_equal_arms_pass_in_one_stage():
    found = judge_point(PointData("p", "period_ns", blocks()), SD, LIMITS)
    assert (found.verdict, found.reason, found.stage) == (Verdict.PASS, Reason.WITHIN_LIMIT, 1)
    assert found.figures.effect == pytest.approx(0.0001, abs=3e-4)
    assert found.figures.low < 0 < found.figures.high
    assert found.figures.least_effect == pytest.approx(0.02)


def test_a_slowdown_fails_only_on_fresh_data():
    assert verdict(blocks(SLOWER)) == (Verdict.INCONCLUSIVE, Reason.NEEDS_CONFIRMATION)
    assert verdict(blocks(SLOWER), blocks(SLOWER, seed=1)) == (Verdict.FAIL, Reason.CONFIRMED_FRESH)


def test_a_slowdown_that_fresh_data_does_not_show_is_no_regression():
    assert verdict(blocks((0.021, 0.022, 0.021, 0.022, 0.021)), blocks(EQUAL, seed=1)) == (
        Verdict.PASS, Reason.WITHIN_LIMIT,
    )  # fmt: skip


def test_what_only_the_fresh_launches_flag_is_decided_by_all_of_them():
    wide = (-0.09, 0.10, 0.0, 0.09, -0.08)
    assert verdict(blocks(wide), blocks(SLOWER, seed=1)) == (Verdict.INCONCLUSIVE, Reason.TOO_WIDE)


def test_a_faster_head_passes_and_says_so():
    assert verdict(blocks(tuple(-effect for effect in SLOWER))) == (Verdict.PASS, Reason.FASTER)


def test_without_a_calibration_nothing_fails():
    pair = blocks(SLOWER), blocks(SLOWER, seed=1)
    assert verdict(*pair, sd=Reason.CALIBRATION_EXPIRED) == (Verdict.INCONCLUSIVE, Reason.CALIBRATION_EXPIRED)
    assert verdict(pair[0], sd=Reason.NO_CALIBRATION) == (Verdict.INCONCLUSIVE, Reason.NO_CALIBRATION)
    assert verdict(blocks(), sd=Reason.NO_CALIBRATION) == (Verdict.PASS, Reason.WITHIN_LIMIT)


def test_the_calibrated_floor_holds_back_what_this_machine_does_by_itself():
    effects = (0.030, 0.029, 0.031, 0.030, 0.030)
    pair = blocks(effects), blocks(effects, seed=1)
    assert verdict(*pair)[0] is Verdict.FAIL
    assert verdict(*pair, sd=0.06)[0] is not Verdict.FAIL


def test_a_run_noisier_than_its_calibration_brings_its_own_floor():
    effects = np.array((0.00, 0.10, 0.01, 0.09, 0.05))  # t = 2.5: above zero at 95 %, less than three standard errors
    assert not first_stage(effects, SD, LIMITS)[0]
    assert first_stage(effects, 0.02, LIMITS)[0]  # where such a spread is usual


def spoilt(arm: str, value: float) -> PairBlocks:
    whole = blocks()
    values = getattr(whole, arm).copy()
    values[1, 2] = value
    return replace(whole, **{arm: values})


FULL = np.ones((5, 6), dtype=bool)
NOT_A_MEASUREMENT = [
    (None, Verdict.ERROR, Reason.NOT_MEASURED),
    (blocks(()), Verdict.ERROR, Reason.NOT_MEASURED),
    (blocks(pairs=0), Verdict.ERROR, Reason.NOT_MEASURED),
    (spoilt("head", np.nan), Verdict.ERROR, Reason.NOT_FINITE),
    (spoilt("base", np.inf), Verdict.ERROR, Reason.NOT_FINITE),
    (spoilt("head", 0.0), Verdict.ERROR, Reason.NOT_POSITIVE),
    (spoilt("base", -1.0), Verdict.ERROR, Reason.NOT_POSITIVE),
    (blocks(dropped=FULL), Verdict.INCONCLUSIVE, Reason.NO_VALID_PAIRS),
    (blocks((0.0,)), Verdict.INCONCLUSIVE, Reason.TOO_FEW_LAUNCHES),
    (blocks((0.0, 0.0)), Verdict.INCONCLUSIVE, Reason.TOO_FEW_LAUNCHES),
    (blocks(base=np.full((5, 6), 2e7), head=np.full((5, 6), 2e7)), Verdict.INCONCLUSIVE, Reason.NO_VARIATION),
    (blocks(head=np.full((5, 6), 1e7)), Verdict.INCONCLUSIVE, Reason.NO_VARIATION),
    (blocks(head_first=~FULL), Verdict.INCONCLUSIVE, Reason.ORDER_UNBALANCED),
    (blocks(head_first=FULL), Verdict.INCONCLUSIVE, Reason.ORDER_UNBALANCED),
]


def head_leads(*by: int) -> np.ndarray:
    """[5, pairs] of `head_first`: in each launch head runs first in so many pairs more than base."""
    pairs = 6 - by[0] % 2
    return np.array([np.arange(pairs) < (pairs + lead) // 2 for lead in by])


@pytest.mark.parametrize(("measured", "unfit"), [
    (blocks(EQUAL[:3]), None), (blocks(EQUAL[:2]), Reason.TOO_FEW_LAUNCHES),
    (blocks(pairs=5, head_first=head_leads(1, -1, 1, -1, 1)), None),
    (blocks(head_first=head_leads(0, 0, 2, 0, 0)), Reason.ORDER_UNBALANCED),
    (blocks(pairs=4, dropped=np.arange(20).reshape(5, 4) % 4 == 0), None),
    (blocks(pairs=4, dropped=np.arange(20).reshape(5, 4) % 3 == 0), Reason.TOO_MANY_DROPPED),
])  # fmt: skip
def test_how_little_is_still_a_measurement(measured, unfit):
    found, limits = fault(measured, LIMITS), (LIMITS.min_launches, LIMITS.max_dropped_share)
    assert limits == (3, 0.25)
    assert found == (None if unfit is None else (Verdict.INCONCLUSIVE, unfit))


@pytest.mark.parametrize("times", [1.0, 1.03, 0.5, 3.0])
def test_an_arm_that_is_the_other_or_a_multiple_of_it_decides_nothing(times):
    base = blocks().base
    assert verdict(blocks(base=base, head=base * times)) == (Verdict.INCONCLUSIVE, Reason.NO_VARIATION)
    assert verdict(blocks(SLOWER), blocks(base=base, head=base * 1.05)) == (
        Verdict.INCONCLUSIVE, Reason.NO_VARIATION,
    )  # fmt: skip


def test_a_part_of_the_step_that_head_never_shows_is_no_pass():
    period = np.full((5, 6), 20e6)
    base = 6e6 * np.exp(0.002 * np.random.default_rng(4).standard_normal((5, 6)))
    nothing = np.zeros((5, 6))
    assert verdict(blocks(base=base, head=nothing, reference=period)) == (Verdict.INCONCLUSIVE, Reason.NO_VARIATION)
    assert verdict(blocks(base=nothing, head=nothing, reference=period)) == (Verdict.PASS, Reason.WITHIN_LIMIT)
    assert verdict(blocks(base=nothing, head=base, reference=period))[0] is not Verdict.PASS


@pytest.mark.parametrize(("first", "word", "reason"), NOT_A_MEASUREMENT)
def test_what_is_no_measurement_never_passes(first, word, reason):
    assert verdict(first) == (word, reason)


@pytest.mark.parametrize(("fresh", "word", "reason"), NOT_A_MEASUREMENT[1:])
def test_neither_does_a_confirmation_that_is_none(fresh, word, reason):
    assert verdict(blocks(SLOWER), fresh) == (word, reason)


def test_a_metric_that_may_be_zero_is_measured_by_the_step():
    period = np.full((5, 6), 20e6)
    rng = np.random.default_rng(3)
    base = np.abs(rng.normal(0, 1e3, (5, 6)))
    base[0, 0] = 0.0
    hidden = blocks(base=base, head=np.abs(rng.normal(0, 1e3, (5, 6))), reference=period)
    exposed = blocks(base=base, head=base + rng.normal(1e6, 1e4, (5, 6)), reference=period)
    assert verdict(hidden) == (Verdict.PASS, Reason.WITHIN_LIMIT)
    found = judge_point(PointData("p", "exposed_h2d_ns", exposed, exposed), SD, LIMITS)
    assert found.verdict is Verdict.FAIL
    assert found.figures.effect == pytest.approx(0.05, rel=0.01)


def test_arms_of_different_shape_are_refused():
    with pytest.raises(UsageError, match="shapes"):
        blocks(head=np.ones((5, 5)))


@pytest.mark.parametrize(("field", "value"), [("launches", 1), ("max_dropped_share", 0.9), ("min_history", 1)])
def test_limits_have_ranges(field, value):
    with pytest.raises(UsageError, match=field):
        Limits(**{field: value})


def test_a_pass_promises_no_more_than_a_failure_demands():
    with pytest.raises(UsageError, match=r"--must-detect 0\.05 is not above --min-effect"):
        Limits(min_effect=0.05, must_detect=0.05)
