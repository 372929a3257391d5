"""Two runs of the same claims: verdicts, intervals of device times, ratios of arms for host times."""

from dataclasses import replace

from stepscope.analysis.blocks import Interval
from stepscope.analysis.claims.claim import Claim, Finding
from stepscope.analysis.claims.figures import Difference, Level, Ratio
from stepscope.analysis.claims.judge import JudgedClaim, Verdict, judge
from stepscope.analysis.claims.pairs import PairedRuns, overlapping
from stepscope.analysis.claims.points import ClaimData
from stepscope.analysis.claims.runs import compare_runs

from .claim_points import launches

FIGURE = Difference({}, "left", "right")
DEVICE = Claim("E1", "s", "a", findings=(Finding("d", FIGURE, "here", 60e3, None, bound="device"),))
HOST = Claim("E2", "s", "a", findings=(
    Finding("h", FIGURE, "here", 60e3, None, bound="host", same=Ratio({}, "left", "right")),
))  # fmt: skip


def run(claim: Claim, slow: float, difference_us: float) -> JudgedClaim:
    """A machine that is `slow` times as slow."""
    return judge(claim, ClaimData(launches(
        lambda arm, launch: round(slow * 1e3 * (100 + (difference_us + launch / 10 if arm == "left" else 0)))
    )))  # fmt: skip


def pair(first: list[JudgedClaim], second: list[JudgedClaim]) -> PairedRuns:
    """The only one of two runs."""
    (found,) = compare_runs([first, second]).pairs
    return found


def test_equal_runs_have_the_same_verdicts_and_overlap() -> None:
    first = [run(DEVICE, 1, 80), run(HOST, 1, 80)]
    found = pair(first, [run(DEVICE, 1, 80.05), run(HOST, 1, 80)])
    assert found.same_verdicts == len(found.claims) == 2
    assert (found.overlaps("device"), found.overlaps("host")) == ((1, 1), (1, 1))


def test_a_slower_host_moves_times_and_not_the_ratio_of_the_arms() -> None:
    found = pair([run(DEVICE, 1, 80), run(HOST, 1, 80)], [run(DEVICE, 1.7, 80), run(HOST, 1.7, 80)])
    assert found.same_verdicts == 2
    assert found.overlaps("device") == (0, 1)
    assert found.overlaps("host") == (1, 1)


def test_another_verdict_is_told() -> None:
    found = pair([run(DEVICE, 1, 80)], [run(DEVICE, 1, 20)])
    assert found.same_verdicts == 0
    assert [claim.same for claim in found.claims] == [False]
    assert (found.claims[0].first.code, found.claims[0].second.code) == ("holds", "does_not_hold")


def test_it_is_another_verdict_where_the_claim_holds_somewhere_else() -> None:
    two = Claim("E3", "s", "a", findings=(
        Finding("small", FIGURE, "small", None, 12e3), Finding("large", FIGURE, "large", 60e3, None)
    ))  # fmt: skip
    small, large = run(two, 1, 5), run(two, 1, 80)
    assert small.verdict.code == large.verdict.code == "holds_where"
    assert pair([small], [large]).same_verdicts == 0


def test_parts_are_told_apart_by_what_both_runs_say() -> None:
    # GIVEN a claim of three parts: met in both, met and then broken, met and then open
    def made(second: float, spread: float = 0.1) -> JudgedClaim:
        parts = {"a": (80.0, 0.1), "b": (second, 0.1), "c": (80.0, spread)}
        points = [
            one for cell, (more, wide) in parts.items()
            for one in launches(
                lambda arm, launch, more=more, wide=wide:
                round(1e3 * (100 + (more + wide * (launch - 2) if arm == "left" else 0))),
                cell={"w": cell},
            )
        ]  # fmt: skip
        figures = tuple(Finding(cell, Difference({"w": cell}, "left", "right"), cell, 60e3, None) for cell in parts)
        return judge(Claim("E4", "s", "a", findings=figures), ClaimData(points))

    first, second = made(80), made(20, 40)
    found = pair([first], [second])
    assert found.claims[0].parts == {"a": "same", "b": "contradicted", "c": "once"}
    assert [found.parts(one) for one in ("same", "contradicted", "by speed", "once", "never")] == [1, 1, 0, 1, 0]
    assert (found.parts(), found.same_verdicts, found.same_words) == (3, 0, 0)
    # THEN what is contradicted is open together, and what one run leaves open both may decide
    together = compare_runs([[first], [second]]).claims[0].together
    assert together == Verdict("holds_where", ("a", "c"), (), ("b",))


def test_the_same_at_different_speeds_of_the_core_is_told_from_the_same_at_one() -> None:
    # GIVEN runs on a core at full speed, on a slowed one, and mostly at full speed
    host = Finding("f", FIGURE, "here", 60e3, None, bound="host")

    def made(paces: tuple[float, ...], more_us: float = 80) -> JudgedClaim:
        plain = launches(lambda arm, launch: round(1e3 * (100 + (more_us + launch / 10 if arm == "left" else 0))))
        points = [
            replace(point, turns=tuple(
                replace(turn, pace=pace) for turn, pace in zip(point.turns, paces, strict=True)))
            for point in plain
        ]  # fmt: skip
        return judge(Claim("E6", "s", "a", findings=(host,)), ClaimData(points))

    full, slowed, either = made((1.0,) * 4), made((1.8,) * 4), made((1.0, 1.0, 1.0, 1.8))
    low = made((1.8,) * 4, 20)
    found = [pair([one], [two]).claims[0].parts["here"]
             for one, two in ((full, slowed), (full, either), (full, low), (slowed, low))]  # fmt: skip
    assert found == ["elsewhere", "same", "by speed", "contradicted"]


def test_a_ratio_that_a_run_does_not_have_is_none_and_no_time_in_its_place() -> None:
    # GIVEN a level of one arm with a ratio to compare it by, whose other arm was not measured in the second run
    level = Finding("level", Level({}, "left"), bound="host", same=Ratio({}, "right", "left"))
    one = Claim("E5", "s", "a", findings=(level,))
    both = launches(lambda arm, launch: 100_000 if arm == "left" else 300_000)
    alone = [point for point in both if point.arm == "left"]
    found = compare_runs([[judge(one, ClaimData(both))], [judge(one, ClaimData(alone))]])
    figure = found.claims[0].figures[0]
    assert figure.intervals == (Interval(3, 3, 3, 5), None)
    assert (figure.pairs[0, 1].overlap, figure.together) == (None, Interval(3, 3, 3, 5))


def test_claims_that_one_run_does_not_have_are_not_compared() -> None:
    waiting = Claim("E9", "s", "a")
    found = compare_runs([[run(DEVICE, 1, 80), judge(waiting, ClaimData([]))], [run(HOST, 1, 80)]])
    assert (found.claims, found.pairs) == ((), ())


def test_intervals_overlap_when_they_have_a_point_in_common() -> None:
    one = Interval(5, 0, 10, 5)
    assert overlapping(one, Interval(15, 10, 20, 5)) is True
    assert overlapping(one, Interval(16, 11, 21, 5)) is False
    assert overlapping(one, Interval(16, None, None, 1)) is None
    assert overlapping(None, one) is None
