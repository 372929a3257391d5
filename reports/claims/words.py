"""Figures, ranges and verdicts of claims as words."""

from __future__ import annotations

from ...analysis.blocks import Interval
from ...analysis.claims.figures import Unit
from ...analysis.claims.judge import Code, Judged, Verdict, half_width

CODES: dict[Code, str] = {
    "holds": "holds", "holds_where": "holds where", "does_not_hold": "does not hold", "undecided": "undecided",
    "unmeasured": "not measured", "not_run": "not yet run",
}  # fmt: skip
_US = 1_000.0


def verdict_words(verdict: Verdict) -> str:
    """`holds`, `holds where the table has 8 MiB; not where ...`, `does not hold`, ..."""
    words = CODES[verdict.code]
    if verdict.code == "holds_where":
        parts = [f"holds where: {'; '.join(verdict.where)}"]
        if verdict.not_where:
            parts.append(f"Not where: {'; '.join(verdict.not_where)}")
        if verdict.open:
            parts.append(f"Undecided where: {'; '.join(verdict.open)}")
        return ". ".join(parts)
    if verdict.code == "does_not_hold" and verdict.open:
        return f"{words} where: {'; '.join(verdict.not_where)}. Undecided where: {'; '.join(verdict.open)}"
    return f"{words}: {verdict.reason}" if verdict.reason else words


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
