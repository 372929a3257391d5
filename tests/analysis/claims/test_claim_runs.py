"""Three runs and more of the same claims: who has what, every two of them, and all together."""

from dataclasses import replace

import pytest
from stepscope.analysis.claims.claim import Claim, Finding
from stepscope.analysis.claims.figures import Difference, Ratio
from stepscope.analysis.claims.judge import JudgedClaim, Verdict, judge
from stepscope.analysis.claims.points import ClaimData
from stepscope.analysis.claims.runs import compare_runs
from stepscope.analysis.claims.together import pooled

from .claim_points import launches

FIGURE = Difference({}, "left", "right")
ONE = Claim("E1", "s", "a", findings=(Finding("d", FIGURE, "here", 60e3, None),))
TWO = replace(ONE, name="E2")
HOST = Claim("E3", "s", "a", findings=(
    Finding("h", FIGURE, "here", 60e3, None, bound="host", same=Ratio({}, "left", "right")),
), one_runner=True)  # fmt: skip
GAUGED = 1.0, 1.0, 1.8, 1.8


def run(claim: Claim, *more_us: float, paces: tuple[float, ...] = ()) -> JudgedClaim:
    """A launch for each difference of the arms; none: it was not run."""
    points = launches(
        lambda arm, launch: round(1e3 * (100 + (more_us[launch] if arm == "left" else 0))), count=len(more_us)
    )
    if paces:
        points = [
            replace(point, turns=tuple(
                replace(turn, pace=pace) for turn, pace in zip(point.turns, paces, strict=True)))
            for point in points
        ]  # fmt: skip
    return judge(claim, ClaimData(points))


MET, BROKEN = (80, 81, 79), (20, 21, 19)


def test_each_run_speaks_for_itself_and_all_of_them_together() -> None:
    # GIVEN a third machine that contradicts the others
    (found,) = compare_runs([[run(ONE, *MET)], [run(ONE, 82, 84, 83)], [run(ONE, *BROKEN)]]).claims
    assert found.numbers == (0, 1, 2)
    assert [verdict.code for verdict in found.verdicts] == ["holds", "holds", "does_not_hold"]
    assert not found.same
    # THEN nothing is known of all machines, and the interval is that of all launches
    assert found.together == Verdict("undecided", open=("here",))
    (figure,) = found.figures
    assert [interval and interval.mean for interval in figure.intervals] == pytest.approx([80e3, 83e3, 20e3])
    assert figure.together == pooled([[80e3, 81e3, 79e3], [82e3, 84e3, 83e3], [20e3, 21e3, 19e3]])
    # AND a fourth that agrees with the first two leaves it so, while three that agree are one
    assert compare_runs([[run(ONE, *MET)]] * 3).claims[0].together == Verdict("holds", ("here",))


def test_a_difference_in_one_run_stands_in_its_pairs_and_no_others() -> None:
    # GIVEN four runs of two claims, the third of which differs in one of them
    runs = [[run(ONE, *MET), run(TWO, *MET)] for _ in range(4)]
    runs[2][0] = run(ONE, *BROKEN)
    found = {pair.numbers: pair for pair in compare_runs(runs).pairs}
    assert list(found) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for numbers, pair in found.items():
        odd = 2 in numbers
        assert (pair.same_verdicts, pair.same_words) == ((1, 1) if odd else (2, 2)), numbers
        assert (pair.parts("contradicted"), pair.parts("same"), pair.parts()) == ((1, 1, 2) if odd else (0, 2, 2))
        assert pair.overlaps("device") == ((1, 2) if odd else (2, 2))
        assert [claim.name for claim in pair.claims if not claim.same] == (["E1"] if odd else [])


def test_a_difference_of_two_runs_stands_in_exactly_one_pair() -> None:
    # GIVEN a run between two others, which overlaps with both of them
    runs = [[run(ONE, 100, 104, 96)], [run(ONE, 108, 116, 112)], [run(ONE, 120, 128, 124)]]
    found = {pair.numbers: pair.overlaps("device") for pair in compare_runs(runs).pairs}
    assert found == {(0, 1): (1, 1), (0, 2): (0, 1), (1, 2): (1, 1)}


def test_a_run_that_lacks_a_claim_is_in_none_of_its_pairs() -> None:
    found = compare_runs([
        [run(ONE), run(TWO, *MET)], [run(ONE, *MET), run(TWO, *MET)], [run(ONE, *MET), run(TWO)],
        [run(ONE, *MET), run(TWO)],
    ])  # fmt: skip
    assert [(claim.name, claim.numbers) for claim in found.claims] == [("E1", (1, 2, 3)), ("E2", (0, 1))]
    pairs = {pair.numbers: [claim.name for claim in pair.claims] for pair in found.pairs}
    assert pairs == {(0, 1): ["E2"], (1, 2): ["E1"], (1, 3): ["E1"], (2, 3): ["E1"]}


def test_a_run_with_one_launch_is_told_and_decides_nothing() -> None:
    runs = [[run(ONE, *MET)], [run(ONE, 20)], [run(ONE, 80, 82, 84)]]
    (found,) = compare_runs(runs).claims
    (figure,) = found.figures
    one = figure.intervals[1]
    assert one is not None
    assert (one.mean, one.low, found.verdicts[1].code) == (pytest.approx(20e3), None, "undecided")
    assert (figure.together, found.together) == (
        pooled([[80e3, 81e3, 79e3], [80e3, 82e3, 84e3]]), Verdict("holds", ("here",))
    )  # fmt: skip
    assert [figure.pairs[pair].overlap for pair in ((0, 1), (0, 2), (1, 2))] == [None, True, None]


def test_a_speed_that_one_run_did_not_gauge_is_compared_in_the_others() -> None:
    # GIVEN a host that was not gauged before two that were
    runs = [[run(HOST, *MET)], [run(HOST, *MET, paces=GAUGED)], [run(HOST, *MET, paces=GAUGED)]]
    found = compare_runs(runs)
    full, slowed = found.claims[0].figures
    assert [one is None for one in full.found + slowed.found] == [False, False, False, True, False, False]
    assert slowed.one.speed == "slowed"
    assert list(slowed.pairs) == [(1, 2)]
    assert [pair.overlaps("host") for pair in found.pairs] == [(1, 1), (1, 1), (2, 2)]
    # AND of two runs only what both have is compared
    assert len(compare_runs(runs[:2]).claims[0].figures) == 1


def test_a_run_whose_premise_is_not_met_keeps_the_reason_for_all() -> None:
    unmet = replace(run(ONE, *MET), verdict=Verdict("undecided", reason="its premise is not met: p"))
    (found,) = compare_runs([[run(ONE, *MET)], [unmet], [run(ONE, *MET)]]).claims
    assert found.together == Verdict("undecided", reason="its premise is not met: p")
