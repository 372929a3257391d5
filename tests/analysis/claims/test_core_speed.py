"""Figures of the host at each speed of a core that flips: which turns are of which speed, and what intervals cover."""

import statistics

import pytest
from stepscope.analysis.blocks import over_launches
from stepscope.analysis.claims.core_speed import SPEEDS, at_speed, border, speed_of
from stepscope.analysis.claims.figures import Difference, Ratio
from stepscope.analysis.claims.points import ClaimData, ClaimPoint, Turn

from .flipping_core import STAGE, flipping_launches


def arm(*turns: tuple[float | None, tuple[int, ...]], series: str = STAGE) -> ClaimPoint:
    """A turn for each (gauge, steps)."""
    made = (Turn(order, {series: steps}, pace) for order, (pace, steps) in enumerate(turns))
    return ClaimPoint("E0", {}, "a", 0, tuple(made))


FAST, SLOW = (1.0, (100, 102, 98, 101)), (1.9, (150, 148, 152, 151))


def speeds(point: ClaimPoint) -> list[str | None]:
    limit = border([point])
    return [speed_of(turn, limit) for turn in point.turns]


def test_a_turn_is_of_the_speed_that_its_steps_are_nearer_to_whatever_the_gauge_missed() -> None:
    # GIVEN turns of both kinds, one gauged slow only because the core flipped behind it, one gauged fast that was slow,
    # one that the flip fell into, and one with a spike
    missed, late, mixed, spike = (1.9, FAST[1]), (1.0, SLOW[1]), (1.9, (100, 101, 151, 150)), (1.0, (100, 99, 400, 101))
    found = speeds(arm(*[FAST] * 5, *[SLOW] * 4, missed, late, mixed, spike))
    assert found == ["full"] * 5 + ["slowed"] * 4 + ["full", "slowed", None, "full"]


def test_turns_gauged_slow_may_have_been_fast_for_the_most_part() -> None:
    assert speeds(arm(*[FAST] * 5, *[(1.9, FAST[1])] * 5, SLOW)) == ["full"] * 10 + ["slowed"]


@pytest.mark.parametrize(
    "turns",
    [
        [FAST] * 2 + [SLOW] * 5,  # two turns make no level
        [FAST] * 5 + [(1.9, (110, 108, 109, 111))] * 5,  # the levels are not apart
        [FAST, SLOW, (1.0, SLOW[1]), (1.0, SLOW[1]), (1.0, FAST[1])] * 3 + [SLOW] * 3,  # two kinds of steps
    ],
)
def test_otherwise_the_gauge_alone_tells(turns: list[tuple[float, tuple[int, ...]]]) -> None:
    assert border([arm(*turns)]) is None
    assert speeds(arm(*turns)) == ["full" if pace < 1.2 else "slowed" for pace, _ in turns]
    assert speed_of(Turn(0, {}, 1.3), None) is None


def test_without_a_gauge_all_turns_count_as_full_and_keep_their_places() -> None:
    point = arm((None, (100,)), (None, (900,)))
    assert at_speed([point], "full") == [point]
    assert [turn.series for turn in at_speed([point], "slowed")[0].turns] == [{}, {}]


def test_a_stage_of_the_host_tells_where_there_is_one() -> None:
    turn = Turn(0, {"period_ns": (1, 1), "preprocess_ns": (9, 9)}, 1.9)
    assert speed_of(turn, 5.0) == "slowed"
    assert speed_of(Turn(0, {"period_ns": (1, 1)}, 1.9), 5.0) == "full"


LEVELS, FACTORS = {"left": 130_000.0, "right": 100_000.0}, {"left": 1.6, "right": 1.4}


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_intervals_cover_the_truth_of_each_speed_on_a_core_that_flips(share: float) -> None:
    # GIVEN 40 runs of five launches on a core that is slowed for 30 or 80 % of the time
    truth = {
        "full": (LEVELS["left"] - LEVELS["right"], LEVELS["left"] / LEVELS["right"]),
        "slowed": (130_000 * 1.6 - 100_000 * 1.4, 1.3 * 1.6 / 1.4),
    }
    figures = (Difference({}, "left", "right", STAGE), Ratio({}, "left", "right", STAGE))
    covered: dict[tuple[str, int], list[bool]] = {}
    errors: dict[tuple[str, int], list[float]] = {}
    mixed = []
    for seed in range(40):
        points = flipping_launches(seed, LEVELS, FACTORS, share)
        mixed += figures[1].by_launch(ClaimData(points)).values()
        for speed in SPEEDS:
            data = ClaimData(at_speed(points, speed))
            for number, figure in enumerate(figures):
                interval = over_launches(list(figure.by_launch(data).values()))
                if interval is None or interval.low is None or interval.high is None:
                    continue
                true = truth[speed][number]
                covered.setdefault((speed, number), []).append(interval.low <= true <= interval.high)
                errors.setdefault((speed, number), []).append(interval.mean / true - 1)
    # THEN each speed has its own figure, covered by 95 % of the intervals or nearly, and without bias
    for key, hits in covered.items():
        assert len(hits) > 30, key
        assert 0.87 <= statistics.fmean(hits) <= 1, (key, statistics.fmean(hits))
        assert abs(statistics.median(errors[key])) < 0.01, (key, statistics.median(errors[key]))
    # AND all turns taken together say something in between, which depends on the share
    assert truth["full"][1] + 0.02 < statistics.fmean(mixed) < truth["slowed"][1]


def test_an_arm_that_another_ones_caches_slow_down_has_the_speeds_of_either_direction() -> None:
    # GIVEN an arm that is 2.5 times as slow in rounds that it does not begin, on a core that flips
    points = flipping_launches(7, LEVELS, FACTORS, 0.5, launches=8, behind=2.5)
    slow_core = [point for point in points if point.arm == "right"]
    # THEN each speed has turns of both directions, and the ratio is that of both (levels 1.3 and 1.3 / 2.5)
    for speed, ratio in (("full", 1.3), ("slowed", 1.3 * 1.6 / 1.4)):
        kept = [[bool(turn.series) for turn in point.turns] for point in at_speed(slow_core, speed)]
        ways = [sum(turn for turns in kept for turn in turns[way::2]) for way in (0, 1)]
        assert min(ways) > 0.6 * max(ways), (speed, ways)
        found = Ratio({}, "left", "right", STAGE).by_launch(ClaimData(at_speed(points, speed)))
        assert statistics.fmean(found.values()) == pytest.approx(ratio * (1 + 1 / 2.5) / 2, rel=0.1)
