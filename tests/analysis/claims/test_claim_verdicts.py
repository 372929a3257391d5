"""Verdicts on synthetic results: met, broken, open; holds, holds where, does not hold, undecided, not measured."""

from dataclasses import replace

import pytest
from stepscope.analysis.claims.claim import Claim, Finding
from stepscope.analysis.claims.figures import Difference, Level, Removed
from stepscope.analysis.claims.judge import Verdict, half_width, judge, judge_finding
from stepscope.analysis.claims.points import ClaimData, ClaimPoint

from .claim_points import launches, point

FIGURE = Difference({}, "left", "right")


def data(*differences_us: float, base_us: float = 100) -> ClaimData:
    """A launch for each difference."""
    return ClaimData(launches(
        lambda arm, launch: round(1e3 * (base_us + (differences_us[launch] if arm == "left" else 0))),
        count=len(differences_us),
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("low_us", "high_us", "differences_us", "state"),
    [
        (60, None, (80, 81, 79, 80), "met"),  # inside
        (60, None, (60, 61, 62, 58), "met"),  # its middle is inside, and it is narrow
        (60, None, (60, 61, 59, 58), "open"),  # its middle is outside, though it overlaps
        (60, None, (50, 51, 49, 50), "broken"),  # outside
        (60, None, (20, 120, 40, 90), "open"),  # overlaps, and says nothing
        (None, None, (80, 81), "shown"),
        (-5, 5, (0.5, -0.5, 0, 0.2), "met"),
        (-5, 5, (9, 10, 11, 10), "broken"),
        (-1, 1, (0.1, 2, -2, 0), "open"),  # within 5 us, but wider than what is claimed
        (None, -5, (-40, -60, -50, -45), "met"),  # wide, but inside
        (60, 100, (107, 108, 106, 107), "broken"),  # more than was claimed is not what was claimed
        (60, None, (80,), "open"),  # one launch has no interval
    ],
)
def test_states(low_us: float | None, high_us: float | None, differences_us: tuple[float, ...], state: str) -> None:
    low, high = (None if bound is None else bound * 1e3 for bound in (low_us, high_us))
    judged = judge_finding(Finding("f", FIGURE, "here", low, high), data(*differences_us))
    assert judged.state == state


def test_the_interval_is_students_over_launches_and_its_width_is_held_against_the_limit() -> None:
    judged = judge_finding(Finding("f", FIGURE), data(10, 20, 30))
    assert judged.interval is not None
    assert judged.interval.mean == pytest.approx(20_000)
    assert half_width(judged.interval) == pytest.approx(4.302653 * 10_000 / 3**0.5, rel=1e-6)
    assert (judged.allowed, judged.precise) == (5_000, False)
    assert judge_finding(Finding("f", FIGURE), data(10, 11, 12)).precise is True


def claim(*findings: Finding, premises: tuple[Finding, ...] = ()) -> Claim:
    return Claim("E0", "a sentence", "arms", "workload", findings, premises, "e00.yaml")


ABOVE_60 = Finding("above 60", FIGURE, "it is large", 60e3, None)
BELOW_12 = Finding("below 12", FIGURE, "it is small", None, 12e3)


@pytest.mark.parametrize(
    ("differences_us", "code", "where", "not_where", "rest"),
    [
        ((80, 81, 79), "holds_where", ("it is large",), ("it is small",), ()),
        ((5, 6, 7), "holds_where", ("it is small",), ("it is large",), ()),
        ((30, 31, 32), "does_not_hold", (), ("it is large", "it is small"), ()),
        ((10, 70, 30), "undecided", (), (), ("it is large", "it is small")),
    ],
)
def test_verdicts_of_two_findings(differences_us, code, where, not_where, rest) -> None:
    verdict = judge(claim(ABOVE_60, BELOW_12), data(*differences_us)).verdict
    assert (verdict.code, verdict.where, verdict.not_where, verdict.open) == (code, where, not_where, rest)


def test_a_claim_holds_when_all_is_met_and_figures_that_are_only_shown_judge_nothing() -> None:
    judged = judge(claim(ABOVE_60, Finding("shown", FIGURE)), data(80, 81, 79))
    assert judged.verdict.code == "holds"
    assert [one.state for one in judged.findings] == ["met", "shown"]
    assert judged.launches == 3


def test_what_was_not_run_and_what_could_not_be_measured_are_two_things() -> None:
    assert judge(claim(), data(1, 2)).verdict.code == "not_run"
    assert judge(claim(ABOVE_60), ClaimData([])).verdict.code == "not_run"
    absent = [ClaimPoint("E0", {}, arm, 0, reason="device 'cuda' needs an NVIDIA GPU") for arm in ("left", "right")]
    verdict = judge(claim(ABOVE_60), ClaimData(absent)).verdict
    assert (verdict.code, verdict.reason) == ("unmeasured", "arm left: device 'cuda' needs an NVIDIA GPU")


def test_a_part_that_is_missing_leaves_the_rest_of_the_claim() -> None:
    gone = Finding("gone", Difference({"w": 9}, "left", "right"), "far away", 0.0, None)
    verdict = judge(claim(ABOVE_60, gone), data(80, 81, 79)).verdict
    assert (verdict.code, verdict.where, verdict.open) == ("holds_where", ("it is large",), ("far away",))


SHARE = Removed(Level({}, "right", "wait_ns"), Level({}, "right"))
WAITS = Finding("host's share", SHARE, "device is slower", None, 0.95)


def with_waits(*waits: int, differences_us: tuple[float, ...]) -> ClaimData:
    """Launches whose right arm waits so many of its 100,000 ns."""
    made = []
    for launch, (wait, difference) in enumerate(zip(waits, differences_us, strict=True)):
        left = [[100_000 + round(1e3 * difference)] * 2] * 2
        made.append(point("left", launch, left))
        made.append(point("right", launch, [[100_000] * 2] * 2, wait_ns=[[wait] * 2] * 2))
    return ClaimData(made)


def test_a_launch_that_misses_a_premise_is_left_out() -> None:
    # GIVEN one launch of five in which the host was as slow as the device, and which says something else
    found = with_waits(40_000, 40_000, 1_000, 40_000, 40_000, differences_us=(80, 81, -300, 79, 80))
    judged = judge(claim(ABOVE_60, premises=(WAITS,)), found)
    assert judged.verdict.code == "holds"
    assert judged.left_out == (2,)
    assert judged.findings[0].interval is not None
    assert judged.findings[0].interval.launches == 4
    # AND without the premise it would have been undecided
    assert judge(claim(ABOVE_60), found).verdict.code == "undecided"


def test_where_most_launches_miss_a_premise_nothing_is_said() -> None:
    found = with_waits(0, 0, 0, 40_000, 40_000, differences_us=(80, 80, 81, 79, 80))
    verdict = judge(claim(ABOVE_60, premises=(WAITS,)), found).verdict
    assert (verdict.code, verdict.reason) == ("undecided", "its premise is not met: host's share")


def test_a_premise_that_no_launch_measured_leaves_the_claim_undecided() -> None:
    # GIVEN launches that would make the claim hold, of which none says how long the host waited
    found = data(80, 81, 79)
    assert judge(claim(ABOVE_60), found).verdict.code == "holds"
    verdict = judge(claim(ABOVE_60, premises=(WAITS,)), found).verdict
    assert verdict.code == "undecided"
    assert verdict.reason.startswith("its premise was not measured: host's share")


def test_launches_without_a_figure_do_not_speak_for_a_premise() -> None:
    # GIVEN five launches, of which the only one that says how long the host waited misses the premise
    found = ClaimData([*with_waits(1_000, differences_us=(80,)).points,
                       *[one for one in data(80, 81, 79, 80, 81).points if one.launch > 0]])  # fmt: skip
    verdict = judge(claim(ABOVE_60, premises=(WAITS,)), found).verdict
    assert (verdict.code, verdict.reason) == ("undecided", "its premise is not met: host's share")


def gauged(arm: str, launch: int, full_ns: int, slowed_ns: int) -> ClaimPoint:
    """Four turns on a core at full speed and four on a slowed one."""
    plain = point(arm, launch, [[full_ns] * 3] * 4 + [[slowed_ns] * 3] * 4)
    return replace(plain, turns=tuple(replace(turn, pace=1.0 if turn.order < 4 else 1.8) for turn in plain.turns))


def on_both_speeds(full_us: float, slowed_us: float, wide_us: float = 0) -> ClaimData:
    """Three launches whose arms differ by so much at full speed and on a slowed core."""
    return ClaimData([
        gauged(arm, launch, *(
            round(1e3 * (base + (more + launch / 10 if arm == "left" else 0))) for base, more in
            ((100, full_us), (180, slowed_us + wide_us * (launch - 1)))
        ))
        for launch in range(3) for arm in ("left", "right")
    ])  # fmt: skip


HOST_60 = replace(ABOVE_60, bound="host")


def test_a_figure_of_the_host_is_judged_at_each_speed_of_the_core() -> None:
    judged = judge(claim(HOST_60), on_both_speeds(80, 144))
    assert [(one.speed, round(one.interval.mean), one.state) for one in judged.findings if one.interval] == [
        ("full", 80_100, "met"), ("slowed", 144_100, "met"),
    ]  # fmt: skip
    assert judged.verdict == Verdict("holds", ("it is large",))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (on_both_speeds(80, 130, 40), Verdict("holds", ("it is large",))),  # met, and open on a slowed core
        (on_both_speeds(30, 54, 20), Verdict("does_not_hold", (), ("it is large",))),
        (
            on_both_speeds(40, 72),
            Verdict("holds_where", ("it is large (on a slowed core)",), ("it is large (on a core at full speed)",)),
        ),
    ],
)
def test_a_part_is_what_both_speeds_say(found: ClaimData, verdict: Verdict) -> None:
    assert judge(claim(HOST_60), found).verdict == verdict


def test_a_speed_that_no_launch_met_in_both_arms_is_null_with_the_reason() -> None:
    points = [replace(one, turns=one.turns[:4]) for one in on_both_speeds(80, 144).points]
    full, slowed = judge(claim(HOST_60), ClaimData(points)).findings
    assert (full.state, slowed.state) == ("met", "unmeasured")
    assert slowed.reason == "in no launch did these arms meet a slowed core in rounds of both directions"


def test_two_percent_of_long_periods_are_not_narrow_for_a_short_difference() -> None:
    # GIVEN 12 us and less claimed of steps of 2.5 ms, and an interval of -5 +- 48: kept to its bound, and says nothing
    judged = judge_finding(BELOW_12, data(-24, 14, -5, 9, -19, base_us=2500))
    assert (judged.precise, judged.state) == (True, "open")


def test_arms_of_one_runner_have_no_round_that_does_not_count() -> None:
    # GIVEN a first round that differs by 60 more
    made = [
        point(arm, launch, [[100_000 + more] * 3] + [[40_000 + more] * 3] * 3) for launch in range(3)
        for arm, more in (("left", 80_000), ("right", 0))
    ]  # fmt: skip
    made = [replace(one, turns=(replace(one.turns[0], series={"period_ns": (100_000,) * 3}), *one.turns[1:]))
            for one in made]  # fmt: skip
    runners = judge(claim(ABOVE_60), ClaimData(made)).findings[0]
    shared = judge(replace(claim(ABOVE_60), one_runner=True), ClaimData(made)).findings[0]
    assert runners.interval is not None
    assert shared.interval is not None
    assert (runners.interval.mean, shared.interval.mean) == (80_000, 60_000)
