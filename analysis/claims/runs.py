"""Two runs of the same claims on two machines: is the verdict the same, and do the figures agree?

Device times are properties of the GPU: their intervals should overlap. Host times are the host's: there the ratio of
the arms is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..blocks import Interval
from .claim import Bound
from .judge import Judged, JudgedClaim, Verdict


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """`overlap` is None where a run has no interval."""

    name: str
    bound: Bound
    first: Interval | None
    second: Interval | None
    overlap: bool | None


@dataclass(frozen=True, slots=True)
class ComparedClaim:
    """One claim in both runs."""

    name: str
    first: Verdict
    second: Verdict
    figures: tuple[ComparedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether both runs say the same of the claim."""
        return self.first.same_as == self.second.same_as


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """All claims that both runs measured."""

    claims: tuple[ComparedClaim, ...]

    @property
    def same_verdicts(self) -> int:
        """Claims with the same verdict in both."""
        return sum(claim.same for claim in self.claims)

    def overlaps(self, bound: Bound) -> tuple[int, int]:
        """(figures whose intervals overlap, figures that both runs have), of the device or of the host."""
        found = [one.overlap for claim in self.claims for one in claim.figures if one.bound == bound]
        known = [overlap for overlap in found if overlap is not None]
        return sum(known), len(known)


def compare_runs(first: Sequence[JudgedClaim], second: Sequence[JudgedClaim]) -> ComparedRuns:
    """The claims that were run in both, in the order of the first."""
    others = {judged.claim.name: judged for judged in second if judged.verdict.code != "not_run"}
    return ComparedRuns(tuple(
        _compared(judged, others[judged.claim.name])
        for judged in first if judged.verdict.code != "not_run" and judged.claim.name in others
    ))  # fmt: skip


def _compared(first: JudgedClaim, second: JudgedClaim) -> ComparedClaim:
    figures = tuple(_figure(one, two) for one, two in zip(first.findings, second.findings, strict=True))
    return ComparedClaim(first.claim.name, first.verdict, second.verdict, figures)


def _figure(one: Judged, two: Judged) -> ComparedFigure:
    return ComparedFigure(one.finding.name, one.finding.bound, one.same, two.same, overlapping(one.same, two.same))


def overlapping(one: Interval | None, two: Interval | None) -> bool | None:
    """Whether two intervals have a point in common; None where one has no bounds."""
    if one is None or two is None:
        return None
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return None
    return one.low <= two.high and two.low <= one.high
