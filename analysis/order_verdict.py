"""What commit orders side by side say of the block table's copy: is the order worth anything, is the copy hidden?

    before (a row of `arms.pair_orders`)                        after
    last - first 0.6 us, first - skip 157 us, |C| 155 us        order "worth_nothing", copy "exposed", share 1.01
    last - first 91 us,  first - skip 53 us,  |C| 155 us        order "worth",         copy "partly",  share 0.34
    last - first 0.2 us, first - skip 8 us,   |C| 155 us        order "worth_nothing", copy "hidden",  share 0.05
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OrderWorth = Literal["worth", "worth_nothing", "backwards", "unresolved", "unknown"]
CopyShown = Literal["more", "exposed", "hidden", "partly", "unknown"]


NOTHING_NS = 5_000
"""The orders count as equal where last - first is no more than this."""

# Shares of |C|, the copy's length, that first - skip comes to.
HIDDEN_UP_TO = 0.1
EXPOSED_FROM = 0.9
MORE_BEYOND = 1.1  # leaving out the copy saved something else as well


@dataclass(frozen=True, slots=True)
class OrderVerdict:
    """`exposed_share` is (first - skip) / |C|; a figure that an arm did not give is None, and its verdict unknown. An
    order is unresolved where the interval of last - first holds 0.
    """

    order: OrderWorth
    copy: CopyShown
    last_minus_first_ns: float | None
    first_minus_skip_ns: float | None
    copy_ns: float | None
    exposed_share: float | None


def order_verdict(row: Mapping[str, object]) -> OrderVerdict:
    """The verdict on one row of `pair_orders`."""
    gain, left, copy = (_number(row.get(f"{name}_ns")) for name in ("last_minus_first", "first_minus_skip", "copy"))
    low, high = (_number(row.get(f"last_minus_first_{bound}_ns")) for bound in ("low", "high"))
    share = left / copy if left is not None and copy else None
    order = _order(gain)
    if order in ("worth", "backwards") and low is not None and high is not None and low <= 0 <= high:
        order = "unresolved"
    return OrderVerdict(order, _copy(share), gain, left, copy, share)


def _order(gain: float | None) -> OrderWorth:
    if gain is None:
        return "unknown"
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


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
