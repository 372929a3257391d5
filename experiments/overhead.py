"""What the probe's ranges and phases cost a step, measured in the run itself: they are switched off in turns.

    round      on off off on   three times, each block of `BLOCK` steps
    figure     the mean over rounds of (pace of steps with them - pace of steps without)

The pace (`analysis.pace`) is the median period where each step waits for its own tokens. Where steps are pipelined it
is made from sums of several periods, because single ones alternate.
Steps without ranges carry `warmup`, so that no other figure counts them, and as many more steps are run. The figure is
not subtracted from anything. It contains ranges, phases and the events at phase borders. It does not contain what both
kinds of steps have: step rows, events around single device operations on a GPU, and a call around each timed function.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from typing import Protocol

from ..analysis.blocks import over_launches
from ..analysis.pace import pace_of_blocks_ns
from ..analysis.summary import OWN_OVERHEAD
from ..instrumentation.recording.registry import Value
from ..runner.devices.calibration_rows import CalibrationRow
from .spec import DeviceName, MeasureSpec

ROUNDS, BLOCK, SETTLE = 3, 6, 1
LEAST_STEPS = 64
"""Measured steps from which a run is long enough to be disturbed."""
NUM_SILENT = 2 * BLOCK * ROUNDS
SOURCE = "measured in this run: ranges and phases silent by turns, A B B A"


class SilentProbe(Protocol):
    """The part of a probe that is used here."""

    @property
    def last_start_ns(self) -> int:
        """When the last step began."""
        ...

    def be_silent(self, silent: bool) -> None:
        """Ranges and phases note nothing from now on, or do again."""
        ...


def counted_steps(measure: MeasureSpec, device: DeviceName) -> int | None:
    """How many steps were asked for on `device`; None: until every request is answered."""
    if device != "cuda" and measure.steps_modelled is not None:
        return measure.steps_modelled
    return measure.steps


def alternates(measure: MeasureSpec, device: DeviceName) -> bool:
    """Whether a run measures the overhead: it says how long it lasts, that is long enough, and nothing else alternates.
    """
    asked = counted_steps(measure, device)
    return measure.interleave is None and asked is not None and asked >= LEAST_STEPS


class Overhead:
    """Rounds that begin with step number `first`; fed after each step, asked for rows at the end.

    `window`: see `pace.window_of`; a block holds one of two steps in flight.
    """

    def __init__(self, first: int, window: int = 1) -> None:
        self._first = first
        self._window = window
        self._starts: dict[int, int] = {}
        self._end = first + 4 * BLOCK * ROUNDS + SETTLE
        self.silent = frozenset(
            first + 4 * BLOCK * round_ + BLOCK + at for round_ in range(ROUNDS) for at in range(2 * BLOCK)
        )

    def after_step(self, number: int, probe: SilentProbe) -> None:
        """Step `number` has just ended: note its start, and set the probe for the next one."""
        if self._first <= number <= self._end:
            self._starts[number] = probe.last_start_ns
        if (number in self.silent) != (number + 1 in self.silent):
            probe.be_silent(number + 1 in self.silent)

    def differences_ns(self) -> list[float]:
        """Of each whole round what a step with ranges takes longer than one without, ns."""
        found = []
        for round_ in range(ROUNDS):
            begin = self._first + 4 * BLOCK * round_
            before, quiet, behind = (
                self._periods(begin, BLOCK),
                self._periods(begin + BLOCK + SETTLE, 2 * BLOCK - SETTLE),
                self._periods(begin + 3 * BLOCK + SETTLE, BLOCK),
            )
            if before and quiet and behind:
                loud_ns = pace_of_blocks_ns([before, behind], self._window)
                quiet_ns = pace_of_blocks_ns([quiet], self._window)
                assert loud_ns is not None
                assert quiet_ns is not None
                found.append(float(loud_ns) - float(quiet_ns))
        return found

    def _periods(self, begin: int, count: int) -> list[int]:
        """Periods of steps `begin` and the next ones, `count` in all; none where one is missing. A block behind one of
        the other kind begins with its second step: so the last loud one of a round reaches a step into the next round.
        """
        starts = [self._starts.get(number) for number in range(begin, begin + count + 1)]
        known = [start for start in starts if start is not None]
        return [after - start for start, after in pairwise(known)] if len(known) == len(starts) else []

    def rows(self, environment: Mapping[str, Value]) -> list[CalibrationRow]:
        """Rows `own_overhead_ns`: the figure, and its 95 % bounds over the rounds; none where no round was whole."""
        interval = over_launches(self.differences_ns())
        if interval is None:
            return []
        gpu, driver = (str(environment.get(name) or "") for name in ("gpu_name", "gpu_driver"))
        origin = (gpu, driver, date.today().isoformat(), SOURCE, None)
        figures = {"step": interval.mean, "step/low": interval.low, "step/high": interval.high}
        return [(OWN_OVERHEAD, key, value, "ns", *origin) for key, value in figures.items() if value is not None]
