"""A run and its repetition on another machine, figure by figure."""

from __future__ import annotations

from ...analysis.claims.runs import ComparedClaim, ComparedFigure, compare_runs
from .table import table
from .view import RunView
from .words import interval_words, verdict_words


def beside(first: RunView, second: RunView) -> str:
    """The section of the comparison."""
    found = compare_runs(first.judged, second.judged)
    device, host = found.overlaps("device"), found.overlaps("host")
    lines = [
        "## The two runs beside each other",
        "",
        f"- The same verdict in {found.same_verdicts} of {len(found.claims)} claims.",
        f"- Device times: the intervals overlap in {device[0]} of {device[1]} figures.",
        f"- Host times, by the ratio of the arms: the intervals overlap in {host[0]} of {host[1]} figures.",
        "",
    ]
    for claim in found.claims:
        lines += _claim(claim, first)
    return "\n".join(lines)


def _claim(claim: ComparedClaim, first: RunView) -> list[str]:
    judged = next(one for one in first.judged if one.claim.name == claim.name)
    rows = []
    for figure, finding in zip(claim.figures, judged.claim.findings, strict=True):
        unit = (finding.same or finding.figure).unit
        rows.append([
            figure.name + (" (ratio of the arms)" if finding.same is not None else ""), figure.bound,
            interval_words(figure.first, unit), interval_words(figure.second, unit), _overlap(figure),
        ])  # fmt: skip
    both = f"first: {verdict_words(claim.first)}; second: {verdict_words(claim.second)}"
    titles = ("figure", "of", "first run", "second run", "intervals")
    return [f"**{claim.name}**: {'same verdict' if claim.same else both}", "", table(titles, rows), ""]


def _overlap(figure: ComparedFigure) -> str:
    return {True: "overlap", False: "apart", None: "no interval"}[figure.overlap]
