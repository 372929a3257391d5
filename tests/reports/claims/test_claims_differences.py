"""What is said above the figures: which claims hold in every run, and the parts that two runs do not agree in."""

from stepscope.analysis.claims.judge import Verdict
from stepscope.analysis.claims.pairs import PairedClaim, PairedRuns
from stepscope.analysis.claims.runs import ComparedClaim, ComparedRuns
from stepscope.reports.claims.differences import verdicts_that_differ
from stepscope.reports.claims.verdicts import verdicts

HOLDS = Verdict("holds", ("a", "b", "c"))
PARTLY = Verdict("holds_where", ("a",), ("b",), ("c",))
OPEN = Verdict("holds_where", ("a",), (), ("b", "c"))
UNMET = Verdict("undecided", reason="its premise is not met: p")


def claim(name: str, *found: Verdict) -> ComparedClaim:
    return ComparedClaim(name, tuple(range(len(found))), found, found[0], ())


def told(*claims: ComparedClaim) -> list[str]:
    return [line for line in verdicts([], [], ComparedRuns(claims, ())).splitlines() if line.startswith("- ")]


def differing(one: Verdict, two: Verdict) -> str:
    pair = PairedRuns((1, 3), (PairedClaim("E1", one, two, ()), PairedClaim("E2", one, one, ())))
    return "\n".join("\n".join(verdicts_that_differ([pair])).splitlines()[4:])


def test_a_claim_holds_in_every_run_when_none_says_otherwise() -> None:
    assert told(claim("E1", HOLDS, HOLDS, HOLDS), claim("E2", HOLDS, PARTLY, HOLDS), claim("E3", PARTLY, OPEN)) == [
        "- Hold in every run, of claims with two runs or more: E1.",
        "- The same verdict in every run: 2 of 3 claims (not E2); in the same words: 1 of 3 claims (not E2 and E3).",
    ]


def test_only_the_parts_in_which_two_runs_differ_are_named() -> None:
    assert differing(PARTLY, HOLDS) == (
        "| 2 and 4 | E1 | holds in 1 of 3, not in 1 / holds | broken: b; open: c | met: b, c |"
    )
    # AND parts that are open in one only make other words, of the same verdict
    assert differing(PARTLY, OPEN).endswith("| holds in 1 of 3, not in 1 / holds in 1 of 3 | broken: b | open: b |")


def test_a_run_that_could_not_say_anything_gives_its_reason() -> None:
    assert differing(HOLDS, UNMET).endswith("| holds / undecided | met: a, b, c | its premise is not met: p |")
