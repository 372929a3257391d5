"""Figures of claims by hand: what a launch says, and how wide its interval may be."""

from dataclasses import replace

import pytest
from stepscope.analysis.claims.core_speed import at_speed
from stepscope.analysis.claims.figures import Difference, Less, Level, Ratio, Removed, Share, time_allowed
from stepscope.analysis.claims.points import ClaimData, ClaimPoint, Turn

from .claim_points import launches, point


def test_a_difference_is_of_steps_in_the_same_place_of_the_same_round() -> None:
    # GIVEN arms whose second step takes 100 more in both, and a right arm with one spoilt step
    left = point("left", 0, [[1000, 1100, 1100], [1000, 1100, 1100]])
    right = point("right", 0, [[900, 1000, 1000], [900, 90_000, 1000]])
    # THEN the launch says 100, whatever the spoilt step did
    assert Difference({}, "left", "right").by_launch(ClaimData([left, right])) == {0: 100.0}


def test_the_round_that_a_visit_begins_with_does_not_count_for_periods() -> None:
    # GIVEN arms with a runner each; the first turn of a visit of four rounds is 300 shorter, and always the left arm's
    opening = {0, 4}
    left = point("left", 0, [[2100 if turn in opening else 2400] for turn in range(8)], stage_ns=[[50]] * 8)
    right = point("right", 0, [[2390]] * 8, stage_ns=[[40]] * 8)
    both = [replace(left, visit=4), replace(right, visit=4)]
    difference = Difference({}, "left", "right")
    assert difference.by_launch(ClaimData(both)) == {0: 10.0}
    assert Level({}, "left", by="turn").by_launch(ClaimData(both)) == {0: 2400.0}
    # THEN all of them would say that the left arm is faster, or in one visit half as much slower
    alike = ClaimData([replace(one, visit=None) for one in both])
    assert difference.by_launch(alike) == {0: (-140 + 10) / 2}
    assert difference.by_launch(ClaimData([left, right])) == {0: 10.0}  # of two openings one is left, among three
    # AND a stage of the host counts in all rounds; so does the only round of a direction
    assert Difference({}, "left", "right", "stage_ns").by_launch(ClaimData(both)) == {0: 10.0}
    two = [point("left", 0, [[2100], [2400]]), point("right", 0, [[2390], [2390]])]
    assert difference.by_launch(ClaimData(two)) == {0: -140.0}


def test_steps_without_a_value_are_left_out_and_launches_of_one_arm_alone_too() -> None:
    left = [point("left", 0, [[10, None, 30]]), point("left", 1, [[10, 10, 10]])]
    right = [point("right", 0, [[1, 2, 3]])]
    figure = Difference({}, "left", "right")
    assert figure.by_launch(ClaimData([*left, *right])) == {0: 18.0}
    assert Difference({}, "left", "right", "nowhere_ns").by_launch(ClaimData([*left, *right])) == {}


def test_by_turn_the_sum_counts_and_not_how_it_falls_into_steps() -> None:
    # GIVEN two steps in flight: a late token makes one period long and the next one short
    left = point("left", 0, [[2000, 2000, 2000], [5000, 500, 500], [2000, 2000, 2000], [2000, 2000, 2000]])
    right = point("right", 0, [[1900, 1900, 1900]] * 4)
    data = ClaimData([left, right])
    assert Difference({}, "left", "right", by="turn").by_launch(data) == {0: 100.0}
    assert Level({}, "left", by="turn").by_launch(data) == {0: 2000.0}


def test_figures_of_figures_are_made_launch_by_launch() -> None:
    data = ClaimData(launches(lambda arm, launch: (4000 if arm == "left" else 1000) * (1 + launch)))
    level, other = Level({}, "left"), Level({}, "right")
    assert Share(level, other).by_launch(data) == dict.fromkeys(range(5), 4.0)
    assert Ratio({}, "left", "right").by_launch(data) == dict.fromkeys(range(5), 4.0)
    assert Removed(other, level).by_launch(data) == dict.fromkeys(range(5), 0.75)
    assert Less(level, other).by_launch(data) == {launch: 3000.0 * (1 + launch) for launch in range(5)}


def test_a_share_of_nothing_is_none() -> None:
    data = ClaimData(launches(lambda arm, launch: 0 if arm == "right" else 5))
    assert Share(Level({}, "left"), Level({}, "right")).by_launch(data) == {}


@pytest.mark.parametrize(("time_ns", "allowed"), [(0, 5_000), (250_000, 5_000), (1_000_000, 20_000), (-1e6, 20_000)])
def test_a_time_is_known_well_enough_at_5_us_or_2_percent(time_ns: float, allowed: float) -> None:
    assert time_allowed(time_ns) == allowed


def test_widths_pass_through_differences_and_quotients() -> None:
    data = ClaimData(launches(lambda arm, launch: 2_000_000 if arm == "left" else 1_000_000))
    assert Difference({}, "left", "right").allowed(data) == 40_000  # of the longer arm
    # 40 us of the part, and 2 x 20 us of the whole, over 1 ms
    assert Share(Level({}, "left"), Level({}, "right")).allowed(data) == pytest.approx(0.08)
    assert Less(Level({}, "left"), Level({}, "right")).allowed(data) == 40_000
    assert Share(Level({}, "left"), Level({}, "nobody")).allowed(data) is None


def test_cells_are_told_apart_and_what_is_missing_says_why() -> None:
    one, two = launches(lambda arm, launch: 10, cell={"w": 1}), launches(lambda arm, launch: 20, cell={"w": 2})
    failed = ClaimPoint("E0", {"w": 3}, "left", 0, reason="out of memory")
    data = ClaimData([*one, *two, failed])
    assert Level({"w": 2}, "left").by_launch(data)[0] == 20.0
    assert Level({"w": 3}, "left").missing(data) == "arm left: out of memory"
    assert Level({"w": 4}, "left").missing(data) == "arm left was measured with w 1, not 4; run its spec again"
    assert Level({"w": 1}, "none").missing(data) == "arm none was not measured"
    assert Level({"w": 1}, "left", "nowhere_ns").missing(data) == "no step of these arms has such a figure"
    assert Share(Level({"w": 1}, "left"), Level({"w": 3}, "left")).missing(data) == "arm left: out of memory"


def on_a_slowed_core(point: ClaimPoint, *orders: int) -> ClaimPoint:
    return replace(point, turns=tuple(replace(one, pace=1.8 if one.order in orders else 1.0) for one in point.turns))


def test_rounds_of_both_directions_weigh_the_same_whatever_is_left_out() -> None:
    # GIVEN something that grows by 10 from turn to turn, arms that are equal, and rounds A B, B A, A B, B A, A B, B A
    left, right = (
        ClaimPoint("E0", {}, arm, 0, tuple(Turn(order, {series: (100 + 10 * order,) * 3}, 1.0) for order in orders))
        for series in ("period_ns",)
        for arm, orders in (("left", (0, 3, 4, 7, 8, 11)), ("right", (1, 2, 5, 6, 9, 10)))
    )
    difference, quotient = Difference({}, "left", "right"), Ratio({}, "left", "right")
    assert difference.by_launch(ClaimData([left, right])) == {0: 0.0}
    # WHEN the core was slowed in one turn: its round does not count, and growth still falls on both arms alike
    full = ClaimData(at_speed([left, on_a_slowed_core(right, 6)], "full"))
    assert difference.by_launch(full) == {0: 0.0}
    assert quotient.by_launch(full)[0] == pytest.approx(1, abs=0.01)
    # and a launch of one direction alone says nothing
    gone = ClaimData(at_speed([on_a_slowed_core(left, 4, 8), right], "full"))
    assert difference.by_launch(gone) == {}


def test_of_a_stage_two_rounds_of_one_direction_will_do() -> None:
    name = "build_indices_ns"
    left, right = (
        ClaimPoint("E0", {}, arm, 0, tuple(Turn(order, {name: (ns,) * 3}, 1.0) for order in orders))
        for arm, orders, ns in (("left", (0, 3, 4, 7), 30), ("right", (1, 2, 5, 6), 20))
    )
    figure = Difference({}, "left", "right", name)
    assert figure.by_launch(ClaimData(at_speed([on_a_slowed_core(left, 0, 4), right], "full"))) == {0: 10.0}
    assert figure.by_launch(ClaimData(at_speed([on_a_slowed_core(left, 0, 4, 7), right], "full"))) == {}
