"""`perf verify` as text: what was planted, what was found, the tolerance, and the verdict, check by check."""

from __future__ import annotations

import textwrap
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
    """One check; `reason` why it was skipped, or what it raised."""

    group: str
    name: str
    review: str
    verdict: str
    reason: str
    seconds: float
    rows: Sequence[VerifyRow]


def render_verify(checks: Sequence[VerifyCheck], heading: str) -> str:
    """The table, without a newline at its end."""
    lines = [heading, ""]
    for check in checks:
        lines.append(f"{check.verdict:8}{check.group} {check.name}  (review {check.review}, {check.seconds:.1f} s)")
        if check.reason:
            lines += textwrap.wrap(check.reason, 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
        if check.rows:
            lines += _cells(_TITLES, "")
        for row in check.rows:
            lines += _cells((row.planted, row.found, row.tolerance), "" if row.verdict == "passed" else row.verdict)
    counts = {name: sum(check.verdict == name for check in checks) for name in ("passed", "failed", "skipped")}
    lines += ["", ", ".join(f"{count} {name}" for name, count in counts.items())]
    return "\n".join(lines)


def _cells(texts: Sequence[str], verdict: str) -> list[str]:
    """Wrapped cells beside one another, eight columns in."""
    columns = [textwrap.wrap(text, width) or [""] for text, width in zip(texts, WIDTHS, strict=True)]
    height = max(map(len, columns))
    lines = []
    for at in range(height):
        parts = [(column[at] if at < len(column) else "").ljust(w) for column, w in zip(columns, WIDTHS, strict=True)]
        lines.append((" " * 8 + "  ".join(parts) + (f"  {verdict}" if at == 0 and verdict else "")).rstrip())
    return lines
