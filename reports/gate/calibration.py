"""A calibration of the gate as a table, and a plan in words."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.gate.detectable import GatePlan
from ...analysis.gate.spreads import Spread
from ..formatting import counted, duration, percent
from .words import point_name

_HEAD = ("point", "metric", "sd of equal arms", "launches", "least effect", "found with 95 %")


def render_calibration(spreads: Sequence[Spread]) -> str:
    """Markdown: a row a point and metric. The last column: a slowdown of that size is flagged 95 times of 100."""
    rows = [
        (point_name(one.point), one.metric, percent(one.sd), str(one.launches), percent(one.plan.least_effect),
         percent(one.plan.detectable))
        for one in spreads
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ("---", "---", *["---:"] * 4), *rows)) + "\n"


def render_plan(plan: GatePlan, sd: float, points: int) -> str:
    """Sentences: what is found where equal arms differ by `sd` between launches, and what it takes."""
    first, most = (_time(seconds) for seconds in (plan.first_stage_s, plan.most_s))
    return (
        f"Equal arms differ by {percent(sd)} between launches: nothing below {percent(plan.least_effect)} is called a"
        f" regression,\nand a slowdown of {percent(plan.detectable)} is flagged {plan.power * 100:.0f} times of 100.\n"
        f"{counted(points, 'point')}: about {first}, and up to {most} where all of it is confirmed on fresh launches"
        " (--block, --launch: what is assumed).\n"
    )


def _time(seconds: float) -> str:
    return duration(seconds * 1e9) if seconds < 120 else f"{seconds / 60:.0f} min"
