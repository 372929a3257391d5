"""What a metric's name says: its unit, and whether less of it is better.

    period_p50_ns, step_ms_p50    a unit is the last part, behind which a statistic may stand
    tokens_per_s, ns_per_token    a rate: no unit here, and more may be better
"""

from __future__ import annotations

import re

from .exact import EXACT

_UNITS = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "bytes": "bytes", "share": "1"}
TIME_UNITS = frozenset({"ns", "us", "ms", "s"})
_STATISTIC = re.compile(r"p\d+|mean|median|min|max|avg|std")
_MORE_IS_BETTER = frozenset({"hidden", "overlap", "overlapped", "saved", "slack", "headroom", "throughput", "goodput"})
"""A time of these is no cost."""
COUNTED = (
    "async_pageable", "hazards_observed", "hazards_possible", "num_syncs", "num_launches", "num_h2d",
    "padding_token_share",
)  # fmt: skip
"""Of a summary of ours: what is compared exactly."""
UNKNOWN_DIRECTION = "more of it may be better; name a time (period_p50_ns) or a count of the gate's (num_syncs)"


def unit_of(metric: str) -> str:
    """The unit that a metric's name carries: "ns", "bytes", "1" (a share), or "count"."""
    parts = metric.split("_")
    while len(parts) > 1 and _STATISTIC.fullmatch(parts[-1]):
        parts.pop()
    return "count" if "per" in parts else _UNITS.get(parts[-1], "count")


def is_time(metric: str) -> bool:
    """Whether it is a duration of which less is better."""
    return unit_of(metric) in TIME_UNITS and _MORE_IS_BETTER.isdisjoint(metric.split("_"))


def less_is_better(metric: str) -> bool:
    """Whether that is known: of times, and of what is counted exactly. A gate on anything else could be the wrong way
    round, and would pass what got worse."""
    return is_time(metric) or metric in COUNTED or metric in EXACT
