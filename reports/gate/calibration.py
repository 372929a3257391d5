"""A calibration of the gate as a table."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.gate.spreads import Spread
from ..formatting import percent

_HEAD = ("point", "metric", "sd of equal arms", "launches", "least effect", "found with 95 %")


def render_calibration(spreads: Sequence[Spread]) -> str:
    """Markdown: a row a point and metric. The last column: a slowdown of that size is flagged 95 times of 100."""
    rows = [
        (one.point, one.metric, percent(one.sd), str(one.launches), percent(one.plan.least_effect),
         percent(one.plan.detectable))
        for one in spreads
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ("---", "---", *["---:"] * 4), *rows)) + "\n"
