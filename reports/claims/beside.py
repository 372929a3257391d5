"""The runs of a claim, on as many machines: every two of them, and all together, figure by figure."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.judge import Judged
from ...analysis.claims.runs import ComparedClaim, ComparedFigure, ComparedRuns
from .differences import agreement, device_figures_apart, named, states_words, unit_of, verdicts_that_differ
from .table import table
from .view import RunView
from .words import interval_words, part_lines, verdict_short


def beside(found: ComparedRuns, runs: Sequence[RunView]) -> str:
    """The section of the comparison."""
    lines = ["## The runs of each claim beside each other", "", *agreement(found.pairs)]
    lines += [*_widths(found, runs), *verdicts_that_differ(found.pairs), *device_figures_apart(found.claims)]
    lines += ["### All figures", ""]
    for claim in found.claims:
        lines += _claim(claim)
    return "\n".join(lines)


def _widths(found: ComparedRuns, runs: Sequence[RunView]) -> list[str]:
    """How many half-widths keep to their bound, of the claims that are compared."""
    rows = []
    for number, run in enumerate(runs):
        names = {claim.name for claim in found.claims if number in claim.numbers}
        judged = [one for claim in run.judged if claim.claim.name in names for one in claim.findings]
        if names:
            rows.append([str(number + 1), *_kept([one for one in judged if one.precise is not None])])
    titles = ("run", "half-widths of the device within their bound", "of the host, at one speed of the core at least")
    return [table(titles, rows), ""]


def _kept(judged: Sequence[Judged]) -> tuple[str, str]:
    device = [one.precise for one in judged if one.finding.bound == "device"]
    host = [one for one in judged if one.finding.bound == "host"]
    kept, figures = ({one.finding.name for one in some} for some in ([one for one in host if one.precise], host))
    return f"{sum(map(bool, device))} of {len(device)} figures", f"{len(kept)} of {len(figures)} figures"


def _claim(claim: ComparedClaim) -> list[str]:
    titles = ("figure", "of", *(f"run {number + 1}" for number in claim.numbers), "all runs", "intervals", "judged")
    rows = [_row(figure, claim.numbers) for figure in claim.figures]
    return [
        f"**{claim.name}**: {'same verdict' if claim.same else 'not the same verdict'}", "",
        f"- All runs together: {verdict_short(claim.together)}", *part_lines(claim.together), "",
        table(titles, rows), "",
    ]  # fmt: skip


def _row(figure: ComparedFigure, numbers: Sequence[int]) -> list[str]:
    unit = unit_of(figure.one)
    return [
        named(figure.one), figure.bound, *(interval_words(one, unit) for one in figure.intervals),
        interval_words(figure.together, unit), _overlap(figure, numbers), states_words(figure.found),
    ]  # fmt: skip


def _overlap(figure: ComparedFigure, numbers: Sequence[int]) -> str:
    """`apart: 1 and 3`, the pairs that are; of two runs `apart`."""
    apart = [
        f"{numbers[one] + 1} and {numbers[two] + 1}" for (one, two), pair in figure.pairs.items()
        if pair.overlap is False
    ]  # fmt: skip
    if apart:
        return "apart" if len(numbers) == 2 else f"apart: {', '.join(apart)}"
    return "overlap" if any(pair.overlap for pair in figure.pairs.values()) else "no interval"
