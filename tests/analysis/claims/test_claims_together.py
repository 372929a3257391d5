"""Two runs together: the pooled interval by hand, what it covers, and how a part is judged."""

import random
import statistics

import pytest
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
    found = pooled((9, 10, 11), (7, 10, 13))
    assert found is not None
    assert found.mean == pytest.approx(10)
    # spread 0.81/3 + 0.01 * 3 = 0.3, free 0.09 / ((0.27^2 + 0.03^2) / 2) = 2.439; t(0.975) of that is 3.642
    assert found.high == pytest.approx(10 + 3.642 * 0.3**0.5, rel=1e-3)
    assert found.launches == 6


def test_machines_that_differ_make_it_as_wide_as_two_machines_allow() -> None:
    # GIVEN means 0 and 20, launches within 0.1: nearly all is between machines, with one degree of freedom
    found = pooled((-0.1, 0, 0.1), (19.9, 20, 20.1))
    assert found is not None
    assert found.low is not None
    assert found.mean == pytest.approx(10)
    assert found.mean - found.low == pytest.approx(12.706 * 10, rel=1e-2)


def test_a_run_alone_speaks_for_itself_and_equal_launches_are_exact() -> None:
    assert pooled((), ()) is None
    assert pooled((1, 2, 3), ()) == over_launches((1, 2, 3)) == pooled((7,), (1, 2, 3))
    exact = pooled((5, 5), (5, 5))
    assert exact is not None
    assert (exact.mean, exact.low, exact.high) == (5, 5, 5)


@pytest.mark.parametrize("machine", [0.0, 3.0, 30.0])
def test_it_covers_the_truth_with_machines_that_differ_by_nothing_by_little_and_by_much(machine: float) -> None:
    # GIVEN launches with a spread of 6 and machines of spread `machine`
    draw, hits = random.Random(5), []
    for _ in range(1000):
        runs = []
        for _run in range(2):
            middle = draw.gauss(100, machine)
            runs.append([draw.gauss(middle, 6) for _ in range(5)])
        found = pooled(*runs)
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
    assert judged_together(judged(*one), judged(*two)).state == state
