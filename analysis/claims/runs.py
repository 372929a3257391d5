"""Runs of the same claims, each on a machine of its own: what each says, what all say together, and every two of them
beside each other (`pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ..blocks import Interval, over_launches
from .claim import Bound
from .core_speed import SPEEDS, Speed
from .judge import Judged, JudgedClaim, Verdict, verdict_of
from .pairs import PairedClaim, PairedFigure, PairedRuns
from .together import judged_together, pooled


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure that two runs or more have.

    found      of each run of the claim; None where a run does not have it (its host was not gauged)
    intervals  of what is compared, of each run
    together   the interval over all of them
    """

    found: tuple[Judged | None, ...]
    intervals: tuple[Interval | None, ...]
    together: Interval | None

    @property
    def one(self) -> Judged:
        """As the first run has it that does."""
        return next(judged for judged in self.found if judged is not None)

    @property
    def bound(self) -> Bound:
        """What it is made of."""
        return self.one.finding.bound

    @property
    def pairs(self) -> dict[tuple[int, int], PairedFigure]:
        """Places of two runs that both have it, among those of the claim -> the figure in both."""
        return {
            (one, two): PairedFigure(first, second, self.intervals[one], self.intervals[two])
            for (one, first), (two, second) in combinations(enumerate(self.found), 2)
            if first is not None and second is not None
        }


@dataclass(frozen=True, slots=True)
class ComparedClaim:
    """One claim in all runs that have it: their numbers, from 0, and what each says; `together` is the verdict of the
    launches of all.
    """

    name: str
    numbers: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    together: Verdict
    figures: tuple[ComparedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether all runs say the same of the claim."""
        return len({verdict.same_as for verdict in self.verdicts}) == 1

    @property
    def pairs(self) -> dict[tuple[int, int], PairedClaim]:
        """Numbers of two runs -> the claim in both."""
        figures = [figure.pairs for figure in self.figures]
        return {
            (self.numbers[one], self.numbers[two]): PairedClaim(
                self.name, self.verdicts[one], self.verdicts[two],
                tuple(pairs[one, two] for pairs in figures if (one, two) in pairs),
            )
            for one, two in combinations(range(len(self.numbers)), 2)
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The claims that two runs or more have, and every two runs that have one in common."""

    claims: tuple[ComparedClaim, ...]
    pairs: tuple[PairedRuns, ...]


def compare_runs(runs: Sequence[Sequence[JudgedClaim]]) -> ComparedRuns:
    """All runs; claims in the order in which they come, pairs in that of the runs."""
    found: dict[str, dict[int, JudgedClaim]] = {}
    for number, run in enumerate(runs):
        for judged in run:
            by_run = found.setdefault(judged.claim.name, {})
            if judged.verdict.code != "not_run":
                by_run[number] = judged
    claims = tuple(_compared(by_run) for by_run in found.values() if len(by_run) > 1)
    of_pairs: dict[tuple[int, int], list[PairedClaim]] = {}
    for claim in claims:
        for numbers, paired in claim.pairs.items():
            of_pairs.setdefault(numbers, []).append(paired)
    return ComparedRuns(claims, tuple(PairedRuns(numbers, tuple(of_pairs[numbers])) for numbers in sorted(of_pairs)))


def _compared(by_run: dict[int, JudgedClaim]) -> ComparedClaim:
    """A run whose host was not gauged is compared as if it had been at full speed."""
    runs = list(by_run.values())
    judged: list[dict[tuple[str, Speed], Judged]] = [
        {(one.finding.name, one.speed or "full"): one for one in run.findings} for run in runs
    ]
    keys = [(finding.name, speed) for finding in runs[0].claim.findings for speed in SPEEDS]
    rows = [tuple(findings.get(key) for findings in judged) for key in keys]
    figures = tuple(_figure(row) for row in rows if sum(one is not None for one in row) > 1)
    reasons = {run.verdict.reason for run in runs if run.verdict.code == "undecided"}
    all_runs = [judged_together([one for one in figure.found if one is not None]) for figure in figures]
    together = verdict_of(all_runs, "; ".join(sorted(reasons - {""})))
    return ComparedClaim(runs[0].claim.name, tuple(by_run), tuple(run.verdict for run in runs), together, figures)


def _figure(row: tuple[Judged | None, ...]) -> ComparedFigure:
    same = [() if one is None else one.same for one in row]
    return ComparedFigure(row, tuple(over_launches(values) for values in same), pooled(same))
