"""A claim: one sentence, and the figures that would contradict it.

A finding names a figure and the range that the claim says it lies in; without a range it is shown and judges nothing.
A premise must hold before the findings say anything: that the device was the slower one, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .figures import Figure

Bound = Literal["device", "host"]
"""What a figure is made of: time of the device, which is the same on another machine of its kind, or of the host,
which is not: two runs then compare the ratio of the arms."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of a claim.

    name       what it is, in words
    where      what is to be said when the claim holds here and not elsewhere ("the table has 8 MiB")
    low, high  the range that the claim says, in the figure's unit; None: open on that side
    expected   what was expected before, in words of the source
    same       for a figure of the host: the ratio of arms by which two runs are compared; None: the figure itself
    """

    name: str
    figure: Figure
    where: str = ""
    low: float | None = None
    high: float | None = None
    expected: str = ""
    bound: Bound = "device"
    same: Figure | None = None

    @property
    def judges(self) -> bool:
        """Whether it has a range."""
        return self.low is not None or self.high is not None

    def allows(self, low: float, high: float) -> bool:
        """Whether all of [low, high] lies in the range."""
        return (self.low is None or self.low <= low) and (self.high is None or high <= self.high)


@dataclass(frozen=True, slots=True)
class Claim:
    """`arms` and `workload` in words; `findings` empty: nobody has measured it yet. `spec` is its file; `one_runner`
    says that its arms share one. `note` tells what is known of its figures' causes.
    """

    name: str
    sentence: str
    arms: str
    workload: str = ""
    findings: tuple[Finding, ...] = ()
    premises: tuple[Finding, ...] = ()
    spec: str = ""
    one_runner: bool = False
    note: str = ""


Claims = Mapping[str, Claim]
