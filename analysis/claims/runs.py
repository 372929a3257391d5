"""Two runs of the same claims on two machines: is the verdict the same, do the figures agree, and what do both say?

Device times are properties of the GPU: their intervals should overlap. Host times are the host's: there the ratio of
the arms is compared, at each speed of the core by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..blocks import Interval, over_launches
from .claim import Bound
from .judge import Judged, JudgedClaim, State, Verdict, by_part, verdict_of
from .together import contradicts, judged_together, pooled

Agreement = Literal["same", "elsewhere", "contradicted", "by speed", "once", "never"]
"""How two runs stand to one part of a claim: decided the same in both at the same speed of the core, or at different
speeds only; met in one and broken in the other at the same speed, or at different speeds only; decided in one of them;
in none."""

@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """`first`, `second`, `both` are intervals of what is compared; `overlap` is None where a run has no interval."""

    one: Judged
    two: Judged
    first: Interval | None
    second: Interval | None
    both: Interval | None
    overlap: bool | None

    @property
    def bound(self) -> Bound:
        """What it is made of."""
        return self.one.finding.bound


@dataclass(frozen=True, slots=True)
class ComparedClaim:
    """One claim in both runs; `together` is the verdict of the launches of both."""

    name: str
    first: Verdict
    second: Verdict
    together: Verdict
    figures: tuple[ComparedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether both runs say the same of the claim."""
        return self.first.same_as == self.second.same_as

    @property
    def parts(self) -> dict[str, Agreement]:
        """Each part of the claim."""
        judging = [one for one in self.figures if one.one.finding.judges]
        second = {(one.two.finding.name, one.two.speed): one.two for one in judging}
        found = by_part([one.one for one in judging])
        again = by_part(list(second.values()))
        return {name: _agreement(found[name], again[name]) for name in found}


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """All claims that both runs measured."""

    claims: tuple[ComparedClaim, ...]

    @property
    def same_verdicts(self) -> int:
        """Claims with the same verdict in both."""
        return sum(claim.same for claim in self.claims)

    @property
    def same_words(self) -> int:
        """Claims with the same parts met, broken and open in both."""
        return sum(claim.first == claim.second for claim in self.claims)

    def parts(self, *wanted: Agreement) -> int:
        """Parts of which the runs agree so; none named: all parts."""
        found = [agreement for claim in self.claims for agreement in claim.parts.values()]
        return sum(one in wanted for one in found) if wanted else len(found)

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
    """A run whose host was not gauged is compared as if it had been at full speed."""
    others = {(one.finding.name, one.speed or "full"): one for one in second.findings}
    pairs = [
        (one, others[one.finding.name, one.speed or "full"]) for one in first.findings
        if (one.finding.name, one.speed or "full") in others
    ]  # fmt: skip
    reasons = {judged.verdict.reason for judged in (first, second) if judged.verdict.code == "undecided"}
    together = verdict_of([judged_together(one, two) for one, two in pairs], "; ".join(sorted(reasons - {""})))
    figures = tuple(_figure(one, two) for one, two in pairs)
    return ComparedClaim(first.claim.name, first.verdict, second.verdict, together, figures)


def _agreement(one: Sequence[Judged], two: Sequence[Judged]) -> Agreement:
    """Of one part, at each speed, in both runs."""
    pairs = list(zip(one, two, strict=True))
    if any(contradicts(*pair) for pair in pairs):
        return "contradicted"
    decided = [_decided(one), _decided(two)]
    if not all(decided):
        return "once" if any(decided) else "never"
    if decided[0] != decided[1]:
        return "by speed"
    return "same" if any(_decided([first]) and first.state == second.state for first, second in pairs) else "elsewhere"


def _decided(speeds: Sequence[Judged]) -> set[State]:
    return {judged.state for judged in speeds if judged.state in ("met", "broken")}


def _figure(one: Judged, two: Judged) -> ComparedFigure:
    first, second = over_launches(one.same), over_launches(two.same)
    return ComparedFigure(one, two, first, second, pooled(one.same, two.same), overlapping(first, second))


def overlapping(one: Interval | None, two: Interval | None) -> bool | None:
    """Whether two intervals have a point in common; None where one has no bounds."""
    if one is None or two is None:
        return None
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return None
    return one.low <= two.high and two.low <= one.high
