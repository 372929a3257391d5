"""`perf verify` as text, check by check: what was planted, what was found, the tolerance, and the verdict."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WIDTHS = (66, 30, 24)
_TITLES = ("planted", "found", "tolerance")


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """One comparison as texts; `verdict` is passed or failed."""

    planted: str
    found: str
    tolerance: str
    verdict: str


@dataclass(frozen=True, slots=True)
class VerifyCheck:
    """One check; `reason` why it was skipped, or what it raised; `seed` where several were run."""

    group: str
    name: str
    verdict: str
    reason: str
    seconds: float
    rows: Sequence[VerifyRow]
    seed: int | None = None


def render_check(check: VerifyCheck) -> str:
    """One check, without a newline at its end."""
    seed = "" if check.seed is None else f", seed {check.seed}"
    lines = [f"{check.verdict:8}{check.group} {check.name}{seed}  ({check.seconds:.1f} s)"]
    if check.reason:
        lines += textwrap.wrap(check.reason, 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
    if check.rows:
        lines += _cells(_TITLES, "")
    for row in check.rows:
        lines += _cells((row.planted, row.found, row.tolerance), "" if row.verdict == "passed" else row.verdict)
    return "\n".join(lines)


def render_mutant(check: str, mutant: str, verdict: str, seconds: float, by: str = "") -> str:
    """One line: killed, SURVIVED or skipped; and `by` what, cut where it is long."""
    said = textwrap.shorten(by, 100, placeholder=" ...")
    return f"{verdict:10}{check:28}{mutant:28}{seconds:6.1f} s  {said}".rstrip()


def render_counts(verdicts: Sequence[str], known: Sequence[str]) -> str:
    """How often each verdict fell, behind a blank line."""
    counts = Counter(verdicts)
    return "\n" + ", ".join(f"{counts[verdict]} {verdict}" for verdict in known)


def _cells(texts: Sequence[str], verdict: str) -> list[str]:
    """Wrapped cells beside one another, eight columns in."""
    columns = [textwrap.wrap(text, width) or [""] for text, width in zip(texts, WIDTHS, strict=True)]
    height = max(map(len, columns))
    lines = []
    for at in range(height):
        parts = [(column[at] if at < len(column) else "").ljust(w) for column, w in zip(columns, WIDTHS, strict=True)]
        lines.append((" " * 8 + "  ".join(parts) + (f"  {verdict}" if at == 0 and verdict else "")).rstrip())
    return lines
