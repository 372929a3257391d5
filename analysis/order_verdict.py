"""What commit orders side by side say of the block table's copy: is the order worth anything, is the copy hidden?

    before (a row of `arms.pair_orders`)                        after
    last - first 0.6 us, first - skip 157 us, |C| 155 us        order "worth_nothing", copy "exposed", share 1.01
    last - first 91 us,  first - skip 53 us,  |C| 155 us        order "worth",         copy "partly",  share 0.34
    last - first 0.2 us, first - skip 8 us,   |C| 155 us        order "worth_nothing", copy "hidden",  share 0.05

first - skip holds the host's call for the copy as well. Where the replay says that the call is most of it, that is told
instead: the copy may be hidden all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OrderWorth = Literal["worth", "worth_nothing", "backwards", "unresolved", "unknown"]
CopyShown = Literal["more", "exposed", "hidden", "partly", "call", "unresolved", "unknown"]


NOTHING_NS = 5_000
"""The orders count as equal where last - first is no more than this, or than what counts as hidden of the copy."""
CALL_FROM = 0.5
"""The call is told instead of the copy from this share of first - skip on."""

# Shares of |C|, the copy's length, that first - skip comes to.
HIDDEN_UP_TO = 0.1
EXPOSED_FROM = 0.9
MORE_BEYOND = 1.1  # leaving out the copy saved something else as well


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """`exposed_share` is (first - skip) / |C|, `call_ns` the host's call for the copy by the replay of arm first. What
    an arm did not give is None, and its verdict unknown.

    Unresolved is an order whose interval of last - first holds 0 and more than nothing, and a copy whose interval of
    first - skip holds 0 where it is not called hidden, or all of the copy where it is.
    """

    order: OrderWorth
    copy: CopyShown
    last_minus_first_ns: float | None
    first_minus_skip_ns: float | None
    copy_ns: float | None
    exposed_share: float | None
    call_ns: float | None = None


def order_verdict(row: Mapping[str, object]) -> OrderVerdict:
    """The verdict on one row of `pair_orders`."""
    gain, left, copy = (_number(row.get(f"{name}_ns")) for name in ("last_minus_first", "first_minus_skip", "copy"))
    share = left / copy if left is not None and copy else None
    free, uncalled = _number(row.get("exposed_step_ns")), _number(row.get("commit_step_ns"))
    call = None if free is None or uncalled is None else max(0.0, uncalled - free)
    shown = _copy(share)
    if shown not in ("unknown", "hidden") and call is not None and left is not None and call >= CALL_FROM * left:
        shown = "call"
    if _doubted(shown, _interval(row, "first_minus_skip"), copy):
        shown = "unresolved"
    return OrderVerdict(_order(gain, _interval(row, "last_minus_first"), copy), shown, gain, left, copy, share, call)


def _interval(row: Mapping[str, object], name: str) -> tuple[float, float] | None:
    low, high = (_number(row.get(f"{name}_{bound}_ns")) for bound in ("low", "high"))
    return None if low is None or high is None else (low, high)


def _order(gain: float | None, interval: tuple[float, float] | None, copy: float | None) -> OrderWorth:
    if gain is None:
        return "unknown"
    nothing = max(NOTHING_NS, HIDDEN_UP_TO * (copy or 0.0))
    if interval is not None and interval[0] <= 0 <= interval[1]:
        return "worth_nothing" if max(-interval[0], interval[1]) <= nothing else "unresolved"
    if abs(gain) <= NOTHING_NS:
        return "worth_nothing"
    return "worth" if gain > 0 else "backwards"


def _copy(share: float | None) -> CopyShown:
    if share is None:
        return "unknown"
    if share > MORE_BEYOND:
        return "more"
    if share >= EXPOSED_FROM:
        return "exposed"
    return "hidden" if share <= HIDDEN_UP_TO else "partly"


def _doubted(shown: CopyShown, interval: tuple[float, float] | None, copy: float | None) -> bool:
    """Whether the interval of first - skip leaves the opposite of what is shown possible."""
    if interval is None or shown == "unknown":
        return False
    if shown == "hidden":
        return interval[1] >= EXPOSED_FROM * (copy or 0.0)
    return interval[0] <= 0


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
