"""Section: what the values of an axis whose points took turns cost against one another."""

from __future__ import annotations

from ...analysis.blocks import Interval
from ..document import Cell, Column, Quantity, Section, Words
from ..formatting import counted, duration
from ..views.axes import ORDER, short, values_of
from ..views.sweep import SweepView
from ..views.turns import in_turns, turning_axes
from .cells import count_column, number, table, us_column

_NOTE = (
    "Period of a step, median over the rounds of a launch, mean over launches; negative: shorter than with the first"
    " value. Bounds at 95 %, Student's, over launches."
)
_NO_BOUND = "an interval takes two launches or more (--param repeats=5)"


def turns_sections(sweep: SweepView) -> tuple[Section, ...]:
    """One section for all such axes but the commit order, which has its own; none where no points took turns."""
    blocks: list[Words] = []
    rows: list[tuple[Cell, ...]] = []
    for axis in turning_axes(sweep):
        first, *others = values_of(sweep.measured, axis)
        for value in others if axis != ORDER else ():
            for setting, found in in_turns(sweep, axis, first, value).took_turns:
                arm = f"{short(axis)} {value} less {first}"
                blocks.append(Words(f"{f'{setting}: ' if setting else ''}{arm}: {_words(found)}.", emphasis=True))
                rows.append(_row(setting, arm, found))
    if not rows:
        return ()
    columns = (
        Column("setting"), Column("arms"), us_column("period, difference"), us_column("low"), us_column("high"),
        count_column("launches"),
    )  # fmt: skip
    listed = table("Arms that took turns", columns, rows, sweep.origin, _NOTE)
    return (Section("turns", "What the switch is worth, measured in turns", (*blocks[:6], listed), True, "Turns"),)


def _words(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{duration(found.mean)} a step in one launch; {_NO_BOUND}"
    verdict = "shorter" if found.high < 0 else "longer" if found.low > 0 else "neither for certain"
    span = f"{duration(found.low)} to {duration(found.high)}"
    return f"{verdict}, {duration(found.mean)} a step (95 %: {span}, {counted(found.launches, 'launch', 'launches')})"


def _row(setting: str, arm: str, found: Interval) -> tuple[Cell, ...]:
    return (
        setting or "-", arm, Quantity(found.mean, "ns"), number(found.low, "ns", _NO_BOUND),
        number(found.high, "ns", _NO_BOUND), Quantity(found.launches, "count"),
    )  # fmt: skip
