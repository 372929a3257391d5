"""How many drafts of a request are right: whatever a lookup finds, or as many as a synthetic acceptance says."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from ..errors import UsageError

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


def num_right(acceptance: SyntheticAcceptance, key: tuple[str, int], turn: int, k: int) -> int:
    """How many of k drafts are to be right, 0 to k, for a request that drafts for the `turn`-th time, from 0.

    A rate is decided by key = (request, outputs so far): the same in every run, whoever corrects the counts.
    """
    if acceptance.pattern != "rate":
        full = acceptance.pattern == "all" or (acceptance.pattern == "alternate" and turn % 2 == 1)
        return k if full else 0
    digest = sha256(f"acceptance\x1f{key[0]}\x1f{key[1]}".encode()).digest()
    number = (int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53
    right, threshold = 0, acceptance.rate
    while right < k and number < threshold:
        right, threshold = right + 1, threshold * acceptance.rate
    return right


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
