"""One thing that `perf doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "limited", "no"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `mend` says what to do about it, empty where nothing is wrong."""

    name: str
    verdict: Verdict
    found: str
    mend: str = ""
