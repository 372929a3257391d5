"""Steps and phases of everything in a trace: of calls by their place on a thread, of device work through its call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import BoolArray, LongArray, filled
from .inference import inferred_phases
from .links import calls_of, inner_calls
from .phase_maps import PhaseMap
from .phases import PhaseSegments, phases_of_ranges
from .steps import Steps, find_steps
from .trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """For each row of a group: the row in `Steps` (-1 outside steps), the place in PHASES (-1), and the row of
    `Trace.host` that asked for it (-1 where that call was not recorded; of host rows themselves -1)."""

    step: LongArray
    phase: LongArray
    call: LongArray


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """All of it; `segments` are the phases on the host's time line, `inner` host rows as `inner_calls` gives them."""

    steps: Steps
    segments: PhaseSegments
    host: Owners
    device: Owners
    copies: Owners
    inner: BoolArray


def attribute(trace: Trace, maps: Sequence[PhaseMap]) -> Attribution:
    """`maps` in the order of asking: the first that knows a range decides its phase."""
    steps, calls, host = find_steps(trace, maps), calls_of(trace.host), trace.host
    step = steps.at(host.process, host.thread, host.start)
    segments = phases_of_ranges(trace, maps)
    if len(steps):
        inferred = inferred_phases(trace, steps, calls, step)
        segments = segments.joined(_of_silent_processes(inferred, segments))
    phase = segments.at(host.process, host.thread, host.start)
    owners = Owners(step, phase, filled(len(host), -1))
    return Attribution(
        steps, segments, owners, _through(owners, calls.of(trace.device)), _through(owners, calls.of(trace.copies)),
        inner_calls(host, calls),
    )


def _of_silent_processes(inferred: PhaseSegments, told: PhaseSegments) -> PhaseSegments:
    """Inferred segments of the processes whose ranges told no phase at all."""
    kept = ~np.isin(inferred.process, told.process)
    return PhaseSegments(
        inferred.process[kept], inferred.thread[kept], inferred.start[kept], inferred.end[kept],
        inferred.phase[kept], inferred.origin[kept], inferred.origins,
    )


def _through(host: Owners, call: LongArray) -> Owners:
    if not len(host.step):
        return Owners(filled(len(call), -1), filled(len(call), -1), call)
    known, place = call >= 0, np.maximum(call, 0)
    return Owners(np.where(known, host.step[place], -1), np.where(known, host.phase[place], -1), call)


