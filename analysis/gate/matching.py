"""Which points two arms share. What is missing or renamed is counted and never passes."""

from __future__ import annotations

from collections.abc import Iterable

from .point import PointVerdict
from .verdict import Reason, Verdict

ALL = "*"
"""The metric of a verdict that concerns a whole point, and the point of one that concerns the whole run."""
ONLY_POINT = "run"
"""The id of the point of a result, or of a spec without parameters, that has but one. People read "the point"."""


def unmatched(base: Iterable[str], head: Iterable[str], *, allow_new: bool = False) -> list[PointVerdict]:
    """A verdict for each point (by id, never by name) that one side lacks; empty where both measured the same.

    A point that head lacks was lost or renamed: an error. One that base lacks has nothing to be compared with, unless
    `allow_new` takes it for new. Two sides without a common point are not a comparison, whatever is allowed.
    """
    left, right = set(base), set(head)
    if not left and not right:
        return [PointVerdict(ALL, ALL, Verdict.ERROR, Reason.NOTHING_MEASURED)]
    if not left & right:
        return [PointVerdict(ALL, ALL, Verdict.INCOMPARABLE, Reason.NO_COMMON_POINTS)]
    lost = [PointVerdict(point, ALL, Verdict.ERROR, Reason.NOT_IN_HEAD) for point in sorted(left - right)]
    new = [PointVerdict(point, ALL, Verdict.INCOMPARABLE, Reason.NOT_IN_BASE) for point in sorted(right - left)]
    return lost if allow_new else lost + new
