"""What the page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.claims.judge import JudgedClaim


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, judged. `file` is the name of its raw data; `origin` is empty for times measured on a GPU; `earlier`
    names claims that it measured by an earlier spec: they are judged as if they had not been run.
    """

    file: str
    date: str
    machine: Mapping[str, Any]
    command: str
    judged: tuple[JudgedClaim, ...]
    origin: str = ""
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimRuns:
    """A claim in each run that has it; `numbers` are those of the runs, from 1. One that no run has is the first's."""

    found: tuple[JudgedClaim, ...]
    numbers: tuple[int, ...] = ()

    @property
    def first(self) -> JudgedClaim:
        """In the first run that has it."""
        return self.found[0]


def by_claim(runs: Sequence[RunView]) -> list[ClaimRuns]:
    """All claims."""
    found = []
    for place, judged in enumerate(runs[0].judged):
        ran = {
            number: run.judged[place] for number, run in enumerate(runs, start=1)
            if run.judged[place].verdict.code != "not_run"
        }  # fmt: skip
        found.append(ClaimRuns(tuple(ran.values()) or (judged,), tuple(ran)))
    return found
