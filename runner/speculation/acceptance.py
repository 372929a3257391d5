"""The switch `acceptance`: real drafts by lookup, or synthetic ones of which a given part is right."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError

NGRAM = "ngram"
_SYNTHETIC = "synthetic:"
_PATTERNS = ("all", "none", "alternate")


@dataclass(frozen=True, slots=True)
class SyntheticAcceptance:
    """How many of a request's drafts are right. Not a measurement of any drafter: a load for the runner.

    pattern  "all", "none", "alternate" (none and all in turn, request by request), or "rate"
    rate     of "rate": each draft is right with this probability if those before it are, so the number is geometric
    """

    pattern: str
    rate: float = 0.0


def parse_acceptance(text: str) -> SyntheticAcceptance | None:
    """What the switch says; None is `ngram`. Raises UsageError for anything unknown."""
    if text == NGRAM:
        return None
    if text.startswith(_SYNTHETIC):
        pattern = text.removeprefix(_SYNTHETIC)
        if pattern in _PATTERNS:
            return SyntheticAcceptance(pattern)
        rate = _rate(pattern)
        if rate is not None and 0.0 <= rate <= 1.0:
            return SyntheticAcceptance("rate", rate)
    known = ", ".join((NGRAM, *(_SYNTHETIC + pattern for pattern in _PATTERNS), f"{_SYNTHETIC}RATE (in [0, 1])"))
    raise UsageError(f"acceptance: unknown value {text!r}; known are {known}")


def _rate(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
