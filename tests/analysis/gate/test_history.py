"""A new result against stored ones, environments that must not be compared, and calibrations that no longer hold."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from stepscope.analysis.gate.calibration import Calibration, calibrate, unusable
from stepscope.analysis.gate.detectable import plan
from stepscope.analysis.gate.equal_arms import EqualArms
from stepscope.analysis.gate.fingerprint import differences
from stepscope.analysis.gate.history import judge_history
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.stages import first_stage
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.errors import UsageError

LIMITS = Limits()
STORED = (10.0, 10.05, 9.95, 10.02, 9.98, 10.04, 9.96, 10.01, 9.99, 10.0)
H200 = {"gpu": "NVIDIA H200", "driver": "550.54", "mig": False}


def verdict(stored, new) -> tuple:
    found = judge_history("p", "step_ms_p50", stored, new, LIMITS)
    return found.verdict, found.reason


@pytest.mark.parametrize(("stored", "new", "word", "reason"), [
    (STORED, 10.0, Verdict.PASS, Reason.WITHIN_LIMIT),
    (STORED, 10.15, Verdict.PASS, Reason.WITHIN_LIMIT),  # surely slower, and less than the floor
    (STORED, 10.3, Verdict.FAIL, Reason.SLOWER_THAN_HISTORY),
    (STORED, 9.0, Verdict.PASS, Reason.FASTER),
    (STORED[:9], 20.0, Verdict.INCONCLUSIVE, Reason.SHORT_HISTORY),
    (STORED[:1], 10.1, Verdict.INCONCLUSIVE, Reason.SINGLE_NUMBER),
    (STORED[:1], 10.0, Verdict.INCONCLUSIVE, Reason.SINGLE_NUMBER),
    ((10.0,) * 12, 10.0, Verdict.INCONCLUSIVE, Reason.NO_VARIATION),
    ((9.0, 11.0) * 6, 10.4, Verdict.INCONCLUSIVE, Reason.TOO_WIDE),
    ((), 10.0, Verdict.ERROR, Reason.NOT_MEASURED),
    ((None,) * 12, 10.0, Verdict.ERROR, Reason.NOT_MEASURED),
    (STORED, None, Verdict.ERROR, Reason.NOT_MEASURED),
    (STORED, 0.0, Verdict.ERROR, Reason.NOT_POSITIVE),
    (STORED, float("nan"), Verdict.ERROR, Reason.NOT_FINITE),
    (STORED, float("inf"), Verdict.ERROR, Reason.NOT_FINITE),
    ((*STORED, 0.0), 10.0, Verdict.ERROR, Reason.NOT_POSITIVE),
    ((*STORED, None), 10.0, Verdict.PASS, Reason.WITHIN_LIMIT),
    ((*STORED[:9], None), 10.0, Verdict.INCONCLUSIVE, Reason.SHORT_HISTORY),
])
def test_a_new_result_against_stored_ones(stored, new, word, reason):
    assert verdict(stored, new) == (word, reason)


def test_the_prediction_interval_is_as_wide_as_it_says():
    """Of one more result of the same kind, one in a hundred lies above its bound (then the floor holds it back)."""
    rng = np.random.default_rng(5)
    limits = Limits(min_effect=0.0)
    words = [
        judge_history("p", "m", tuple(np.exp(row[:-1])), float(np.exp(row[-1])), limits).verdict
        for row in rng.normal(0.0, 0.01, (2000, 13))
    ]
    assert words.count(Verdict.FAIL) / len(words) == pytest.approx(0.01, abs=0.006)


def test_environments_differ_in_what_is_known_and_in_what_is_not():
    assert differences(H200, {**H200, "sm_clock_mhz": 1409}) == ()
    (other,) = differences(H200, {**H200, "gpu": "NVIDIA A100"})
    assert (other.field, other.base, other.head, other.unknown) == ("gpu", "NVIDIA H200", "NVIDIA A100", False)
    for nobody in ({}, {"gpu": None}, {"gpu": "Unknown"}, {"gpu": ""}):
        assert differences(nobody, nobody)[0].unknown
    assert [item.field for item in differences(H200, {"gpu": "NVIDIA H200", "mig": True})] == ["driver", "mig"]


def test_a_calibration_holds_on_its_machine_for_its_time():
    today = date(2026, 3, 31)
    effects = np.random.default_rng(1).normal(0, 0.01, 20)
    kept = calibrate(effects, date(2026, 3, 1), H200, LIMITS)
    assert kept.equal.sd == pytest.approx(np.std(effects, ddof=1))
    assert unusable(kept, H200, today, LIMITS) is None
    assert unusable(kept, H200, date(2026, 4, 1), LIMITS) is Reason.CALIBRATION_EXPIRED
    assert unusable(kept, H200, date(2026, 2, 1), LIMITS) is Reason.CALIBRATION_EXPIRED
    assert unusable(kept, {**H200, "driver": "560"}, today, LIMITS) is Reason.CALIBRATION_OTHER_MACHINE
    assert unusable(None, H200, today, LIMITS) is Reason.NO_CALIBRATION
    assert unusable(Calibration(EqualArms(0.01, 19), today, H200), H200, today, LIMITS) is Reason.NO_CALIBRATION


@pytest.mark.parametrize(("effects", "word"), [
    (np.full(20, 0.01), "coarse"), (np.zeros(19), "19 whole"), (np.full(25, np.nan), "0 whole"),
])
def test_a_calibration_of_nothing_is_refused(effects, word):
    with pytest.raises(UsageError, match=word):
        calibrate(effects, date(2026, 3, 1), H200, LIMITS)


@pytest.mark.parametrize("sd", [0.003, 0.01, 0.022])
def test_the_plan_names_what_one_stage_finds_19_times_of_20(sd):
    found = plan(sd, 24, LIMITS)
    rng = np.random.default_rng(9)
    effects = np.log1p(found.detectable) + sd * rng.standard_normal((4000, 5))
    assert first_stage(effects, sd, LIMITS)[0].mean() == pytest.approx(found.power, abs=0.03)
    assert found.least_effect == pytest.approx(max(0.02, np.expm1(3 * sd / np.sqrt(5))))
    assert found.first_stage_s == pytest.approx(5 * (10 + 24 * 6 * 2 * 1.2))
    assert found.most_s == 2 * found.first_stage_s
