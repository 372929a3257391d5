"""What the page is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...analysis.claims.judge import JudgedClaim


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, judged. `file` is the name of its raw data; `origin` is empty for times measured on a GPU."""

    file: str
    date: str
    machine: Mapping[str, Any]
    command: str
    judged: tuple[JudgedClaim, ...]
    origin: str = ""
