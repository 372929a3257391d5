"""Every two runs beside each other: how far they agree, and what they do not agree in."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.figures import Unit
from ...analysis.claims.judge import Judged, Verdict
from ...analysis.claims.pairs import Agreement, PairedClaim, PairedRuns
from ...analysis.claims.runs import ComparedClaim
from .table import table
from .words import PARTS, filled, interval_words, name_words, verdict_short

AGREEMENT: dict[Agreement, str] = {
    "same": "decided the same in both runs", "elsewhere": "decided the same in both, at different speeds of the core",
    "contradicted": "met in one run and broken in the other",
    "by speed": "met at one speed of the core and broken at the other, in different runs",
    "once": "decided in one run, open in the other", "never": "open in both",
}  # fmt: skip


def agreement(pairs: Sequence[PairedRuns]) -> list[str]:
    """A line a pair, and what its parts come to."""
    titles = (
        "runs", "same verdict", "same words", "contradicted parts", "device intervals overlap", "host ratios overlap"
    )
    parts = [[words, *(str(pair.parts(wanted)) for pair in pairs)] for wanted, words in AGREEMENT.items()]
    return [
        table(titles, [_pair(pair) for pair in pairs]), "",
        filled(
            "*Same verdict*: with the same parts met; *same words*: with the same parts broken and open as well."
            " Host times are compared by the ratio of the arms at the same speed of the core. Two runs that have no"
            " claim in common have no line."
        ), "",
        table(("parts of the claims", *(f"runs {runs_words(pair)}" for pair in pairs)),
              [*parts, ["all", *(str(pair.parts()) for pair in pairs)]]), "",
    ]  # fmt: skip


def _pair(pair: PairedRuns) -> list[str]:
    device, host, count = pair.overlaps("device"), pair.overlaps("host"), len(pair.claims)
    return [
        runs_words(pair), f"{pair.same_verdicts} of {count} claims", f"{pair.same_words} of {count} claims",
        f"{pair.parts('contradicted')} of {pair.parts()}", f"{device[0]} of {device[1]} figures",
        f"{host[0]} of {host[1]} figures",
    ]  # fmt: skip


def runs_words(pair: PairedRuns) -> str:
    """`1 and 2`."""
    return " and ".join(str(number + 1) for number in pair.numbers)


def verdicts_that_differ(pairs: Sequence[PairedRuns]) -> list[str]:
    """A line a pair and claim: what each run says of the parts that they do not say the same of."""
    rows = [
        [runs_words(pair), claim.name, _verdicts(claim), _only_in(claim.first, claim.second),
         _only_in(claim.second, claim.first)]
        for pair in pairs for claim in pair.claims if claim.first != claim.second
    ]  # fmt: skip
    lines = ["### Parts of which two runs do not say the same", ""]
    if not rows:
        return [*lines, "None.", ""]
    titles = ("runs", "claim", "verdict", "parts that differ, in the first", "in the second")
    return [*lines, table(titles, rows), ""]


def _verdicts(claim: PairedClaim) -> str:
    words = [verdict_short(verdict) for verdict in (claim.first, claim.second)]
    return f"the same: {words[0]}" if claim.same and words[0] == words[1] else " / ".join(words)


def _only_in(verdict: Verdict, other: Verdict) -> str:
    """The parts that this verdict has and the other one does not have so, or why it has none."""
    states = zip(PARTS, (verdict.where, verdict.not_where, verdict.open),
                 (other.where, other.not_where, other.open), strict=True)  # fmt: skip
    only = [(word, [name for name in mine if name not in others]) for word, mine, others in states]
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in only if names) or verdict.reason


def device_figures_apart(claims: Sequence[ComparedClaim]) -> list[str]:
    """A line a figure of the device and pair of runs whose intervals have no point in common."""
    rows = [
        [claim.name, named(pair.one), f"{claim.numbers[one] + 1} and {claim.numbers[two] + 1}",
         interval_words(pair.first, unit_of(pair.one)), interval_words(pair.second, unit_of(pair.one)),
         states_words((pair.one, pair.two))]
        for claim in claims for figure in claim.figures if figure.bound == "device"
        for (one, two), pair in figure.pairs.items() if pair.overlap is False
    ]  # fmt: skip
    lines = ["### Device figures whose intervals are apart", ""]
    if not rows:
        return [*lines, "None.", ""]
    return [*lines, table(("claim", "figure", "runs", "in the first", "in the second", "judged"), rows), ""]


def named(judged: Judged) -> str:
    """The figure, as runs are compared by it."""
    return name_words(judged) + (" (ratio of the arms)" if judged.finding.same is not None else "")


def unit_of(judged: Judged) -> Unit:
    """The unit of what is compared."""
    return (judged.finding.same or judged.finding.figure).unit


def states_words(runs: Sequence[Judged | None]) -> str:
    """What each run says of a figure; once, where all say the same."""
    if not any(one is not None and one.finding.judges for one in runs):
        return ""
    words = ["-" if one is None or one.state == "unmeasured" else one.state for one in runs]
    return words[0] if len(set(words)) == 1 else " / ".join(words)
