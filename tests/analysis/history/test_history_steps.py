"""Steps in series whose truth is known: found where they are, not found where there are none, and how often."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from stepscope.analysis.history import steps
from stepscope.analysis.history.found import State
from stepscope.analysis.history.judge import judge_series
from stepscope.analysis.history.limits import StepLimits
from stepscope.analysis.history.proposals import noise_of, ruptures_proposals
from stepscope.analysis.history.split import best_split, difference_p
from stepscope.analysis.history.steps import find_steps, likeness, newest
from stepscope.errors import UsageError

from .made import noisy, series, step, stored

pytest.importorskip("ruptures")
LIMITS = StepLimits()
PROPOSE = ruptures_proposals()


def judged(values, **options):
    return judge_series(series(values, **options), PROPOSE, LIMITS, exact=False)


def test_a_step_is_named_by_its_commits():
    found = judged(step(before=20, after=10))
    (one,) = found.steps
    assert (one.last_good.name, one.first_bad.name) == ("c19", "c20")
    assert one.commits == ("c20",)
    assert (one.slower, one.within_commit, one.num_before, one.num_after) == (True, None, 20, 10)
    assert one.effect == pytest.approx(0.05, abs=0.01)
    assert one.before == pytest.approx(1e7, rel=0.01)
    assert one.p < 1e-9
    assert found.noise == pytest.approx(0.01, rel=0.35)
    assert found.level == pytest.approx(1.05e7, rel=0.01)


def test_a_step_that_noise_blurs_has_a_wider_range_that_holds_the_truth():
    (one,) = judged(step(20, 20, effect=0.05, sd=0.02, seed=4)).steps
    names = [f"c{n}" for n in range(40)]
    low, high = names.index(one.last_good.name), names.index(one.first_bad.name)
    assert low < 20 <= high
    assert high - low > 1
    assert one.commits == tuple(names[low + 1 : high + 1])


def test_up_and_down_again_are_two_steps():
    steps = judged(noisy([1e7] * 15 + [1.1e7] * 10 + [1e7] * 15)).steps
    assert [(one.likely_after.name, one.slower) for one in steps] == [("c15", True), ("c25", False)]


@pytest.mark.parametrize("spikes", [{12: 1.5}, {12: 1.5, 13: 1.4}, {28: 1.6, 29: 1.5}, {5: 1.3, 6: 1.3, 20: 0.6}])
def test_spikes_are_no_steps(spikes):
    values = noisy([1e7] * 30)
    for at, factor in spikes.items():
        values[at] *= factor
    assert judged(values).steps == ()


def test_the_newest_results_alone_are_told_not_called_a_step():
    found = judged(step(before=30, after=2, effect=0.08))
    assert found.state is State.NO_STEP
    assert (found.newest.count, found.newest.first.name) == (2, "c30")
    assert found.newest.effect == pytest.approx(0.08, abs=0.02)
    assert judged(step(before=30, after=3, effect=0.08)).steps[0].likely_after.name == "c30"


def test_holes_are_no_values_and_a_range_reaches_across_them():
    values = step(before=20, after=10)
    for at, nothing in ((3, None), (19, math.nan), (20, 0.0), (21, -1.0), (25, math.inf)):
        values[at] = nothing
    found = judged(values)
    assert (found.measured, found.holes) == (25, 5)
    (one,) = found.steps
    assert (one.last_good.name, one.first_bad.name) == ("c18", "c22")
    assert one.commits == ("c19", "c20", "c21", "c22")


def test_a_step_within_one_commit_is_not_the_code():
    values = step(before=20, after=10)
    results = tuple(stored(value, 7 if 15 <= at < 25 else at) for at, value in enumerate(values))
    one = series(values)
    found = judge_series(replace(one, results=results), PROPOSE, LIMITS, exact=False)
    assert found.steps[0].within_commit == "c7"


@pytest.mark.parametrize(("values", "state"), [
    ([], State.NOT_MEASURED), ([None] * 20, State.NOT_MEASURED), ([0.0] * 20, State.NOT_MEASURED),
    ([1e7] * 7, State.TOO_SHORT), ([1e7] * 20, State.NO_VARIATION), (noisy([1e7] * 7), State.TOO_SHORT),
    (noisy([1e7] * 8), State.NO_STEP), ([None] * 30 + noisy([1e7] * 7), State.TOO_SHORT),
])
def test_what_cannot_be_said_is_said(values, state):
    found = judged(values)
    assert (found.state, found.steps) == (state, ())
    assert found.state.decided is (state is State.NO_STEP)


def counted(values):
    return judge_series(series(values, "num_syncs"), PROPOSE, LIMITS, exact=True)


def test_a_count_steps_at_once_and_exactly_and_zero_is_one():
    found = counted([0] * 8 + [1])
    (one,) = found.steps
    assert (one.last_good.name, one.first_bad.name, one.before, one.after) == ("c7", "c8", 0, 1)
    assert (one.p, one.effect, one.slower) == (None, None, True)
    assert counted([3] * 10).state is State.NO_STEP
    assert counted([1, 2] * 5).state is State.VARIES


def test_small_steps_are_left_alone():
    assert judged(step(30, 30, effect=0.015, sd=0.001)).steps == ()
    assert len(judged(step(30, 30, effect=0.025, sd=0.001)).steps) == 1


def alarms(make, trials=400):
    return sum(bool(find_steps(make(), PROPOSE, LIMITS)) for _ in range(trials)) / trials


def test_steady_series_alarm_in_less_than_one_of_a_hundred():
    # Measured with 1500 trials each: normal 0, Student's t with 3 degrees 0.000 (n 30) and 0.002 (n 100), 5 % spikes of
    # 10 % on the mean 0.000 and 0.004.
    rng = np.random.default_rng(11)
    assert alarms(lambda: 0.01 * rng.standard_normal(30)) <= 0.005
    assert alarms(lambda: 0.01 * rng.standard_t(3, 30)) <= 0.01
    assert alarms(lambda: 0.01 * rng.standard_normal(40) + (rng.random(40) < 0.05) * rng.exponential(0.1, 40)) <= 0.01


def test_a_proposed_place_that_goes_has_its_neighbours_judged_anew_and_no_other(monkeypatch):
    # GIVEN a place every ten results, of which one holds
    calls = []

    def noting(*stretch):
        calls.append(stretch)
        return best_split(*stretch)

    monkeypatch.setattr(steps, "best_split", noting)
    values = 0.01 * np.random.default_rng(13).standard_normal(1000)
    values[500:] += np.log1p(0.05)
    found = find_steps(values, lambda values, least: tuple(range(10, 1000, 10)), LIMITS)
    assert [one.place for one in found] == [500]
    # THEN the work grows with the places: each is judged, takes two others with it, and the last one is judged again
    assert len(calls) <= 3 * 99


def test_how_often_a_step_is_found_and_its_range_holds_it():
    rng = np.random.default_rng(12)
    for effect, sd, least in ((0.05, 0.01, 0.95), (0.10, 0.02, 0.93), (0.05, 0.02, 0.80)):
        hits, held = 0, 0
        for _ in range(200):
            values = sd * rng.standard_normal(30)
            values[20:] += np.log1p(effect)
            found = find_steps(values, PROPOSE, LIMITS)
            hits += bool(found)
            held += any(one.earliest <= 20 <= one.latest for one in found)
        assert hits / 200 >= least
        assert held / hits >= 0.93


def test_drift_that_neighbours_share_weakens_the_test():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(60)
    walk = np.array([sum(0.8**lag * noise[at - lag] for lag in range(at + 1)) for at in range(60)]) * 0.01
    assert likeness(walk, []) > 0.5
    assert likeness(noise, []) < 0.3
    left, right = np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.1, 1.9])
    assert difference_p(left, right, 4.0) > difference_p(left, right)


def test_the_test_is_students_times_the_places():
    values = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 3.0, 3.1, 2.9, 3.0, 2.95, 3.05])
    split = best_split(values, 0, 11, 3)
    assert split.place == 5
    places = 11 - 2 * 3 + 1
    assert split.p == pytest.approx(places * stats.ttest_ind(values[:5], values[5:]).pvalue, rel=1e-9)
    assert difference_p(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == 1.0
    assert difference_p(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == 0.0


def test_noise_is_not_taken_from_steps():
    values = np.array(noisy([1.0] * 50 + [2.0] * 50, sd=0.01))
    assert noise_of(values) == pytest.approx(0.014, rel=0.4)
    assert noise_of(np.array([1.0, 1.0, 1.0, 1.0, 2.0])) > 0
    assert newest(np.log(np.array(noisy([1e7] * 5))), LIMITS) is None


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 0.5}, {"min_effect": -1}, {"min_segment": 1},
                                   {"min_segment": 5}, {"min_results": 3}, {"min_effect": float("nan")}])  # fmt: skip
def test_limits_are_ranged(wrong):
    with pytest.raises(UsageError, match="history limits"):
        StepLimits(**wrong)
