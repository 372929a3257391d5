"""Runs together: the pooled interval by hand, what it covers, and how a part is judged."""

import random
import statistics

import pytest
from scipy.special import stdtrit
from stepscope.analysis.blocks import over_launches
from stepscope.analysis.claims.claim import Finding
from stepscope.analysis.claims.figures import Difference
from stepscope.analysis.claims.judge import judge_finding
from stepscope.analysis.claims.points import ClaimData
from stepscope.analysis.claims.together import judged_together, pooled

from .claim_points import launches

FIGURE = Difference({}, "left", "right")


def test_machines_that_agree_are_weighed_by_how_well_they_know() -> None:
    # GIVEN means 10 and 10 with variances 1/3 and 3: weights 0.9 and 0.1
    found = pooled([(9, 10, 11), (7, 10, 13)])
    assert found is not None
    assert found.mean == pytest.approx(10)
    # spread 0.81/3 + 0.01 * 3 = 0.3, free 0.09 / ((0.27^2 + 0.03^2) / 2) = 2.439; t(0.975) of that is 3.642
    assert found.high == pytest.approx(10 + 3.642 * 0.3**0.5, rel=1e-3)
    assert found.launches == 6


def test_machines_that_differ_make_it_as_wide_as_two_machines_allow() -> None:
    # GIVEN means 0 and 20, launches within 0.1: nearly all is between machines, with one degree of freedom
    found = pooled([(-0.1, 0, 0.1), (19.9, 20, 20.1)])
    assert found is not None
    assert found.low is not None
    assert found.mean == pytest.approx(10)
    assert found.mean - found.low == pytest.approx(12.706 * 10, rel=1e-2)


def test_a_run_alone_speaks_for_itself_and_equal_launches_are_exact() -> None:
    assert pooled([(), ()]) is None
    assert pooled([(1, 2, 3), ()]) == over_launches((1, 2, 3)) == pooled([(7,), (1, 2, 3)])
    exact = pooled([(5, 5), (5, 5)])
    assert exact is not None
    assert (exact.mean, exact.low, exact.high) == (5, 5, 5)


def test_three_machines_by_hand() -> None:
    # GIVEN means 10, 12, 20 and sample variances 1, 4, 9 of three launches: v = 1/3, 4/3, 3
    found = pooled([(9, 10, 11), (10, 12, 14), (17, 20, 23)])
    assert found is not None
    # the means' variance is ((-4)^2 + (-2)^2 + 6^2) / 2 = 28, the v have a mean of 14/9: t = 28 - 14/9 = 238/9
    # v + t = 241/9, 250/9, 265/9; weights in proportion to 9/241, 9/250, 9/265, which add up to 0.107306
    weights = 0.348016, 0.335487, 0.316497
    assert found.mean == pytest.approx(0.348016 * 10 + 0.335487 * 12 + 0.316497 * 20, rel=1e-4)  # 13.836
    # spread: w^2 v = 0.040371, 0.150068, 0.300517; t sum(w^2) = 238/9 * 0.333837 = 8.828117; together 9.319073
    assert sum(weight**2 for weight in weights) == pytest.approx(0.333837, rel=1e-4)
    # free: 9.319073^2 / ((0.040371^2 + 0.150068^2 + 0.300517^2) / 2 + 8.828117^2 / 2) = 86.845 / 39.025 = 2.2254
    # t(0.975) of that is 3.9109
    assert found.high == pytest.approx(13.836 + 3.9109 * 9.319073**0.5, rel=1e-3)
    assert found.low == pytest.approx(13.836 - 3.9109 * 9.319073**0.5, rel=1e-3)
    assert found.launches == 9


def test_machines_that_agree_leave_nothing_between_them() -> None:
    # GIVEN three means of 10 with v = 1/3 each: weights 1/3, spread 1/9, six degrees of freedom; t(0.975, 6) is 2.4469
    found = pooled([(9, 10, 11)] * 3)
    assert found is not None
    assert (found.mean, found.high) == (pytest.approx(10), pytest.approx(10 + 2.4469 / 3, rel=1e-4))


def test_a_third_machine_adds_a_degree_of_freedom_to_what_lies_between_them() -> None:
    # GIVEN means 0, 10, 20 and launches within 0.1: t is 100 nearly, spread 100/3, t(0.975, 2) is 4.3027
    found = pooled([(-0.1, 0, 0.1), (9.9, 10, 10.1), (19.9, 20, 20.1)])
    assert found is not None
    assert found.high == pytest.approx(10 + 4.3027 * (100 / 3) ** 0.5, rel=1e-3)


@pytest.mark.parametrize("runs", [((9, 10, 11), (7, 10, 13)), ((0.0, 1.0, 2.5, 2.0), (19.0, 20.5)), ((1, 2), (1, 2))])
def test_two_machines_are_pooled_as_by_the_formula_of_two(runs: tuple[tuple[float, ...], ...]) -> None:
    one, two = runs
    (m1, m2), (v1, v2) = map(statistics.fmean, runs), (statistics.variance(values) / len(values) for values in runs)
    between = max(0.0, (m1 - m2) ** 2 / 2 - (v1 + v2) / 2)
    w1 = (v2 + between) / (v1 + v2 + 2 * between)
    p1, p2, machine = w1**2 * v1, (1 - w1) ** 2 * v2, between * (w1**2 + (1 - w1) ** 2)
    free = (p1 + p2 + machine) ** 2 / (p1**2 / (len(one) - 1) + p2**2 / (len(two) - 1) + machine**2)
    found = pooled(runs)
    assert found is not None
    assert found.mean == pytest.approx(w1 * m1 + (1 - w1) * m2)
    assert found.high == pytest.approx(found.mean + float(stdtrit(free, 0.975)) * (p1 + p2 + machine) ** 0.5)


def test_a_run_with_one_launch_is_left_out_where_another_has_two() -> None:
    two = (9, 10, 11), (7, 10, 13)
    assert pooled([two[0], (500,), two[1]]) == pooled(two)
    assert pooled([(500,), two[0], (3,)]) == over_launches(two[0])
    assert pooled([(500,), (3,), (4,)]) == over_launches((500,))


@pytest.mark.parametrize("machine", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_it_covers_the_truth_with_machines_that_differ_by_nothing_by_little_and_by_much(
    machine: float, count: int
) -> None:
    # GIVEN launches with a spread of 6 and machines of spread `machine`
    draw, hits = random.Random(5), []
    for _ in range(3000):
        runs = []
        for _run in range(count):
            middle = draw.gauss(100, machine)
            runs.append([draw.gauss(middle, 6) for _ in range(5)])
        found = pooled(runs)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= 100 <= found.high)
    assert 0.88 <= statistics.fmean(hits) <= 0.985


def judged(*differences_us: float, low_us: float | None = 60):
    data = ClaimData(launches(
        lambda arm, launch: round(1e3 * (100 + (differences_us[launch] if arm == "left" else 0))),
        count=len(differences_us),
    ))  # fmt: skip
    return judge_finding(Finding("f", FIGURE, "here", None if low_us is None else low_us * 1e3), data)


@pytest.mark.parametrize(
    ("one", "two", "state"),
    [
        ((80, 81, 79), (180, 181, 179), "met"),  # met on both: that machines differ does not matter
        ((80, 81, 79), (20, 21, 19), "open"),  # contradicted
        ((30, 90, 100), (75, 85, 80), "met"),  # open in one, and both together say it
        ((-40, 150, 90), (10, 170, 40), "open"),
        ((62, 70, 58, 66, 69), (61, 70, 59, 66, 69), "met"),  # open in both, and the launches of both say it
        ((20, 60, 40), (43, 47, 45), "broken"),
        ((80, 81, 79), (), "met"),  # the only run that has it
    ],
)
def test_a_part_in_both_runs(one: tuple[float, ...], two: tuple[float, ...], state: str) -> None:
    assert judged_together([judged(*one), judged(*two)]).state == state


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        (((80, 81, 79), (180, 181, 179), (280, 281, 279)), "met"),  # met on all: that they differ does not matter
        (((80, 81, 79), (85, 86, 84), (20, 21, 19)), "open"),  # a third machine contradicts two
        (((20, 21, 19), (15, 16, 14), (80, 81, 79)), "open"),
        (((80, 81, 79), (180, 181, 179), (20,)), "met"),  # a single launch does not speak against two runs
        (((80, 81, 79), (), (180, 181, 179)), "met"),  # nor does a run without the figure
        (((30, 90, 100), (75, 85, 80), (78, 82, 86)), "met"),  # open in one, and all together say it
        (((61,), (80,), (90,)), "open"),
    ],
)
def test_a_part_in_three_runs(runs: tuple[tuple[float, ...], ...], state: str) -> None:
    assert judged_together([judged(*one) for one in runs]).state == state
