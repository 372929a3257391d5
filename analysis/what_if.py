"""What the period would be if something took another time: the same replay, with copies or host phases stretched."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..instrumentation.queues import Replay
from .pace import pace_ns, steps_in_flight, window_of
from .replay import Timeline, changed, replays
from .stats import Number, exact, mean
from .tables import LongArray, Process, TableSource

TRANSIENT_STEPS = 2
"""Steps that a change needs to settle when two are in flight: what is enqueued already does not feel it."""
LEAST_STEPS = 3
UNTIED_SHARE = 0.01
"""Of the steady periods: so much of them may be waits that a replay takes for work."""


@dataclass(frozen=True, slots=True)
class Change:
    """Factors on recorded durations: 0 takes no time, 1 is as recorded, 2 is twice as long (a dose).

    copies   buffer name -> factor on the device time of its copies
    phases   host phase -> factor on the host work in it (waits for the device are not work)
    """

    name: str
    copies: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)


def table_copies(buffers: Sequence[str], factor: float) -> Change:
    """The copies of all block tables free (0), or twice as long (2)."""
    words = "free" if not factor else "twice as long"
    if len(buffers) == 1:
        return Change(f"copy of {buffers[0]} {words}", copies={buffers[0]: factor})
    return Change(f"all block-table copies {words}", copies=dict.fromkeys(buffers, factor))


def faster_phase(phase: str = "preprocess", less: float = 0.3) -> Change:
    """Host work of `phase` takes the share `less` less."""
    return Change(f"{phase} -{less:.0%}", phases={phase: 1.0 - less})


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Predicted mean period over the steady steps. `saved_ns` is positive when the change makes steps shorter."""

    change: Change
    steps: int
    period_ns: Number | None
    predicted_period_ns: Number | None
    saved_ns: Number | None
    reason: str | None


def what_if(recording: TableSource, change: Change) -> WhatIf:
    """Replay the whole recording with `change`; null with a reason where fewer than 3 steady steps can be replayed.

    Of a recording with several processes the first one that can be replayed is taken. Time in which the host idled
    until the next request arrived stands in the recording as work between steps and stays as long as it was: where
    arrivals set the pace, read the saving as time that becomes free, not as a shorter period.
    """
    first = replays(recording).first
    if first is None:
        return WhatIf(change, 0, None, None, None, "no device operation can be replayed")
    return _what_if(*first, change)


def _what_if(process: Process, line: Timeline, change: Change) -> WhatIf:
    steady = steady_steps(process, line)
    if len(steady) < LEAST_STEPS:
        return WhatIf(change, len(steady), None, None, None, _too_few(len(steady)))
    if change.copies and not change.phases and set(change.copies).isdisjoint(line.ops.buffer):
        reason = f"no copy of {', '.join(change.copies)} can be replayed"
        return WhatIf(change, len(steady), None, None, None, reason)
    if reason := untied_reason(line, steady):
        return WhatIf(change, len(steady), None, None, None, reason)
    before = np.diff(line.step_starts(line.baseline))[steady]
    after = np.diff(line.step_starts(changed(line, change.copies, change.phases)))[steady]
    return WhatIf(change, len(steady), mean(before), mean(after), mean(before - after), None)


def steady_steps(process: Process, line: Timeline) -> LongArray:
    """Positions (in the timeline's steps) of steps whose period counts.

    Not warm-up, complete, followed by the next step number (a period across a gap in the recording is none), and not
    among the first two replayed ones, where a change has not settled yet.
    """
    kept = process.is_counted(line.step_numbers)
    followed = np.diff(line.step_numbers) == 1
    settled = np.arange(len(followed)) >= TRANSIENT_STEPS
    return np.flatnonzero(kept[:-1] & followed & settled)


def untied_reason(line: Timeline, steady: LongArray) -> str:
    """Why no change of the period can be told: in the steady steps the host waits for what the recording does not know
    the end of, and a replay would keep those waits as long as they were. Empty where that is no matter.
    """
    begin, end = line.untied[:, 0], line.untied[:, 1]  # of one host thread, in order: they do not overlap
    spent = np.concatenate(([0], np.cumsum(end - begin)))
    starts = line.step_starts(line.baseline)
    place = np.searchsorted(begin, starts, side="right")
    waited = spent[place]
    inside = place > 0
    waited[inside] -= np.maximum(0, end[place[inside] - 1] - starts[inside])
    share = int(np.diff(waited)[steady].sum()) / max(1, int(np.diff(starts)[steady].sum()))
    if share <= UNTIED_SHARE:
        return ""
    return f"{share:.0%} of the steady steps are waits of the host for operations whose end is not known"


def period_change(process: Process, line: Timeline, replayed: Replay) -> tuple[Number | None, str | None]:
    """By how much the steady period is shorter in `replayed`, or None and the reason.

    The pace (`pace`) of what each step is shorter by, over each block of steady steps that follow one another, and of
    the blocks the median: a step that the machine disturbed in a call that the change leaves out must not speak for
    all. Where each step waits for its own tokens a pace is the median. Not the difference of two paces: where steps of
    several kinds take turns (replayed and eager, of few tokens and of many), a little less in each of them can make the
    median step another kind's, and the difference of medians was 1.9 ms for a copy of 3 us.
    """
    steady = steady_steps(process, line)
    if len(steady) < LEAST_STEPS:
        return None, _too_few(len(steady))
    if reason := untied_reason(line, steady):
        return None, reason
    before = np.diff(line.step_starts(line.baseline))
    after = np.diff(line.step_starts(replayed))
    window = window_of(steps_in_flight(process))
    blocks = np.split(steady, np.flatnonzero(np.diff(steady) > 1) + 1)
    changes = [_pace((before - after)[block], window) for block in blocks]
    return exact(statistics.median(changes)), None


def _pace(periods_ns: LongArray, window: int) -> Fraction:
    """Of one period or more, exactly: a multiple of a window's share of half a ns, or a mean."""
    found = pace_ns(periods_ns, window)
    assert found is not None
    return Fraction(found).limit_denominator(2 * max(window, len(periods_ns)))


def _too_few(count: int) -> str:
    return f"only {count} steady steps can be replayed, {LEAST_STEPS} are needed"
