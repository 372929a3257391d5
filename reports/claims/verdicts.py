"""The table of the verdicts: each run's, and that of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.claims.judge import Verdict
from ...analysis.claims.runs import ComparedClaim, ComparedRuns
from .table import table
from .view import ClaimRuns, RunView
from .words import CODES, filled, joined, verdict_short


def verdicts(claims: Sequence[ClaimRuns], runs: Sequence[RunView], compared: ComparedRuns) -> str:
    """A line a claim, short enough for a terminal; the sentences stand in the claims' own sections."""
    several = {claim.name: claim for claim in compared.claims}
    titles = ["", "about", "verdict"]
    if len(runs) > 1:
        titles[2:] = [*(f"run {number}" for number, _ in enumerate(runs, start=1)), "all runs"]
    rows = []
    for one in claims:
        name = one.first.claim.name
        found = [verdict_short(one.first.verdict)]
        if len(runs) > 1:
            found = [*_of_each(one, runs), _of_all(one, several.get(name))]
        rows.append([name, one.first.claim.arms.split(":")[0], *found])
    told = "".join(f"\n{line}" for line in _told(compared.claims))
    return f"## Verdicts\n\n{table(titles, rows)}\n{told}"


def _of_each(one: ClaimRuns, runs: Sequence[RunView]) -> list[str]:
    """Each run's verdict, or that it is in the words of an earlier one."""
    found = dict(zip(one.numbers, one.found, strict=False))
    all_same = len({judged.verdict for judged in one.found}) == 1
    cells: list[str] = []
    earlier: dict[Verdict, int] = {}
    for number, run in enumerate(runs, start=1):
        if number not in found:
            cells.append("earlier spec" if one.first.claim.name in run.earlier else "-")
            continue
        verdict = found[number].verdict
        if verdict in earlier:
            cells.append("same words" if all_same else f"same words as run {earlier[verdict]}")
            continue
        words = verdict_short(verdict)
        cells.append(f"{words}, other parts" if words in map(verdict_short, earlier) else words)
        earlier[verdict] = number
    return cells


def _of_all(one: ClaimRuns, compared: ComparedClaim | None) -> str:
    if compared is not None:
        return verdict_short(compared.together)
    return "a repetition is to come" if one.numbers else CODES["not_run"]


def _told(claims: Sequence[ComparedClaim]) -> list[str]:
    """Which claims hold on every machine, and of which the machines do not say the same."""
    if not claims:
        return []
    hold = [claim.name for claim in claims if all(verdict.code == "holds" for verdict in claim.verdicts)]
    verdict = [claim.name for claim in claims if not claim.same]
    words = [claim.name for claim in claims if len(set(claim.verdicts)) > 1]
    return [
        filled(f"- Hold in every run, of claims with two runs or more: {joined(hold) or 'none'}.", "  "),
        filled(
            f"- The same verdict in every run: {_but(verdict, len(claims))}; in the same words:"
            f" {_but(words, len(claims))}.", "  ",
        ), "",
    ]  # fmt: skip


def _but(names: Sequence[str], count: int) -> str:
    """`11 of 12 claims (not E1)`."""
    return f"{count - len(names)} of {count} claims{f' (not {joined(names)})' if names else ''}"
