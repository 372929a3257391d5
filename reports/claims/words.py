"""Figures, ranges and verdicts of claims as words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ...analysis.blocks import Interval
from ...analysis.claims.figures import Unit
from ...analysis.claims.judge import SPEED_WORDS, Code, Judged, Verdict, half_width

CODES: dict[Code, str] = {
    "holds": "holds", "holds_where": "holds where", "does_not_hold": "does not hold", "undecided": "undecided",
    "unmeasured": "not measured", "not_run": "not yet run",
}  # fmt: skip
PARTS = ("met", "broken", "open")
WIDTH = 120
_US = 1_000.0


def verdict_short(verdict: Verdict) -> str:
    """`holds in 2 of 4 parts, not in 1`; the rest is open."""
    of = sum(map(len, (verdict.where, verdict.not_where, verdict.open)))
    if verdict.code == "holds_where":
        rest = f", not in {len(verdict.not_where)}" if verdict.not_where else ""
        return f"holds in {len(verdict.where)} of {of}{rest}"
    if verdict.code == "does_not_hold" and verdict.open:
        return f"does not hold in {len(verdict.not_where)} of {of}"
    return CODES[verdict.code]


def part_lines(verdict: Verdict) -> list[str]:
    """Items of a list in Markdown: the parts that are met, broken, open; or the reason why there are none."""
    found = zip(PARTS, (verdict.where, verdict.not_where, verdict.open), strict=True)
    told = [f"{word}: {'; '.join(names)}" for word, names in found if names] or [verdict.reason]
    return [filled(f"  - {words}", "    ") for words in told if words]


def joined(words: Sequence[str]) -> str:
    """`a, b and c`; empty for none."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def filled(words: str, indent: str = "") -> str:
    """As lines that a terminal shows whole."""
    return textwrap.fill(
        words, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def name_words(judged: Judged) -> str:
    """The figure, and at which speed of the core."""
    return judged.finding.name if judged.speed is None else f"{judged.finding.name}, {SPEED_WORDS[judged.speed]}"


def number(value: float, unit: Unit) -> str:
    """A time in us, or a plain number; one or two decimals."""
    scaled = value / _US if unit == "ns" else value
    if unit == "ns":
        return f"{scaled:.1f}" if abs(scaled) < 1000 else f"{scaled:.0f}"
    return f"{scaled:.3f}" if abs(scaled) < 10 else f"{scaled:.1f}"


def interval_words(interval: Interval | None, unit: Unit) -> str:
    """`106.7 (79.9 to 133.4) us`; a single launch has no bounds, and says so."""
    if interval is None:
        return "-"
    suffix = " us" if unit == "ns" else ""
    if interval.low is None or interval.high is None:
        return f"{number(interval.mean, unit)}{suffix} (1 launch, no interval)"
    return f"{number(interval.mean, unit)} ({number(interval.low, unit)} to {number(interval.high, unit)}){suffix}"


def found_words(judged: Judged) -> str:
    """The interval, or why there is none."""
    if judged.interval is None:
        return f"null: {judged.reason}"
    return interval_words(judged.interval, judged.finding.figure.unit)


def range_words(judged: Judged) -> str:
    """What the claim says of the figure."""
    finding, unit = judged.finding, judged.finding.figure.unit
    suffix = " us" if unit == "ns" else ""
    if finding.low is not None and finding.high is not None:
        return f"{_bound(finding.low, unit)} to {_bound(finding.high, unit)}{suffix}"
    if finding.low is not None:
        return f"{_bound(finding.low, unit)}{suffix} or more"
    return f"{_bound(finding.high, unit)}{suffix} or less" if finding.high is not None else "shown"


def _bound(value: float, unit: Unit) -> str:
    return f"{value / _US:g}" if unit == "ns" else f"{value:g}"


def width_words(judged: Judged) -> str:
    """Half-width against what is allowed; `!` where it is wider."""
    unit = judged.finding.figure.unit
    half = None if judged.interval is None else half_width(judged.interval)
    if half is None:
        return "-"
    if judged.allowed is None:
        return number(half, unit)
    return f"{number(half, unit)} of {number(judged.allowed, unit)}{'' if judged.precise else ' !'}"
