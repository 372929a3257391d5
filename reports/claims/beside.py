"""A run and its repetition on another machine, figure by figure."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.figures import Unit
from ...analysis.claims.judge import Judged, JudgedClaim
from ...analysis.claims.runs import Agreement, ComparedClaim, ComparedFigure, ComparedRuns, compare_runs
from .table import table
from .view import Repeated
from .words import filled, interval_words, name_words, part_lines, verdict_short

AGREEMENT: dict[Agreement, str] = {
    "same": "decided the same in both runs", "elsewhere": "decided the same in both, at different speeds of the core",
    "contradicted": "met in one run and broken in the other",
    "by speed": "met at one speed of the core and broken at the other, in different runs",
    "once": "decided in one run, open in the other", "never": "open in both",
}  # fmt: skip


def compared(claims: Sequence[Repeated]) -> ComparedRuns:
    """Those that were run twice."""
    pairs = [(one.first, one.second) for one in claims if one.second is not None]
    return compare_runs([first for first, _ in pairs], [second for _, second in pairs])


def beside(claims: Sequence[Repeated]) -> str:
    """The section of the comparison."""
    found = compared(claims)
    twice = [(one.first, one.second) for one in claims if one.second is not None]
    lines = ["## The two runs of each claim beside each other", "", *_summary(found)]
    for words, judged in zip(("first", "second"), zip(*twice, strict=True), strict=False):
        lines.append(_widths(words, judged))
    lines.append("")
    for claim in found.claims:
        lines += _claim(claim)
    return "\n".join(lines)


def _summary(found: ComparedRuns) -> list[str]:
    device, host = found.overlaps("device"), found.overlaps("host")
    count = len(found.claims)
    parts = [f"  - {words}: {found.parts(agreement)}" for agreement, words in AGREEMENT.items()]
    return [
        f"- The same verdict, with the same parts met, in {found.same_verdicts} of {count} claims; with the same parts"
        f" broken and open as well in {found.same_words}.",
        f"- Of the {found.parts()} parts of these claims:", *parts,
        f"- Device times: the intervals overlap in {device[0]} of {device[1]} figures.",
        f"- Host times, by the ratio of the arms at the same speed of the core: the intervals overlap in {host[0]} of"
        f" {host[1]} figures.",
    ]  # fmt: skip


def _widths(words: str, claims: Sequence[JudgedClaim]) -> str:
    """How many half-widths keep to their bound."""
    judged = [one for claim in claims for one in claim.findings if one.precise is not None]
    device = [one.precise for one in judged if one.finding.bound == "device"]
    host = [one for one in judged if one.finding.bound == "host"]
    kept, figures = ({one.finding.name for one in some} for some in ([one for one in host if one.precise], host))
    return filled(
        f"- Half-widths within their bound in the {words} runs: of the device {sum(map(bool, device))} of {len(device)}"
        f" figures, of the host (at one speed of the core at least) {len(kept)} of {len(figures)}.", "  ",
    )  # fmt: skip


def _claim(claim: ComparedClaim) -> list[str]:
    titles = ("figure", "of", "first run", "second run", "both runs", "intervals", "judged")
    rows = [_row(figure) for figure in claim.figures]
    return [
        f"**{claim.name}**: {'same verdict' if claim.same else 'not the same verdict'}", "",
        f"- Both runs together: {verdict_short(claim.together)}", *part_lines(claim.together), "",
        table(titles, rows), "",
    ]  # fmt: skip


def _row(figure: ComparedFigure) -> list[str]:
    finding = figure.one.finding
    unit: Unit = (finding.same or finding.figure).unit
    ratio = " (ratio of the arms)" if finding.same is not None else ""
    return [
        name_words(figure.one) + ratio, figure.bound, interval_words(figure.first, unit),
        interval_words(figure.second, unit), interval_words(figure.both, unit), _overlap(figure),
        _states((figure.one, figure.two)),
    ]  # fmt: skip


def _states(both: Sequence[Judged]) -> str:
    if not both[0].finding.judges:
        return ""
    words = ["-" if one.state == "unmeasured" else one.state for one in both]
    return words[0] if words[0] == words[1] else " / ".join(words)


def _overlap(figure: ComparedFigure) -> str:
    return {True: "overlap", False: "apart", None: "no interval"}[figure.overlap]
