"""Two runs of the same claims on two machines: is the verdict the same, and do the figures agree?

Device times are properties of the GPU: their intervals should overlap. Host times are the host's: there the ratio of
the arms is compared, at each speed of the core by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..blocks import Interval
from .claim import Bound
from .judge import Judged, State, Verdict, by_part
from .together import contradicts

Agreement = Literal["same", "elsewhere", "contradicted", "by speed", "once", "never"]
"""How two runs stand to one part of a claim: decided the same in both at the same speed of the core, or at different
speeds only; met in one and broken in the other at the same speed, or at different speeds only; decided in one of them;
in none."""


@dataclass(frozen=True, slots=True)
class PairedFigure:
    """A figure that both runs have; `first` and `second` are the intervals of what is compared of it."""

    one: Judged
    two: Judged
    first: Interval | None
    second: Interval | None

    @property
    def bound(self) -> Bound:
        """What it is made of."""
        return self.one.finding.bound

    @property
    def overlap(self) -> bool | None:
        """Whether the intervals do; None where a run has none."""
        return overlapping(self.first, self.second)


@dataclass(frozen=True, slots=True)
class PairedClaim:
    """One claim in both runs."""

    name: str
    first: Verdict
    second: Verdict
    figures: tuple[PairedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether both runs say the same of the claim."""
        return self.first.same_as == self.second.same_as

    @property
    def parts(self) -> dict[str, Agreement]:
        """Each part of the claim."""
        judging = [one for one in self.figures if one.one.finding.judges]
        found = by_part([one.one for one in judging])
        again = by_part([one.two for one in judging])
        return {name: _agreement(found[name], again[name]) for name in found}


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """All claims that both runs measured; `numbers` are the places of the runs, from 0."""

    numbers: tuple[int, int]
    claims: tuple[PairedClaim, ...]

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


def overlapping(one: Interval | None, two: Interval | None) -> bool | None:
    """Whether two intervals have a point in common; None where one has no bounds."""
    if one is None or two is None:
        return None
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return None
    return one.low <= two.high and two.low <= one.high
