"""What would shorten a step, by how much at most or as the replay predicts: what a page should say first.

Figures are of the recording's own steps; nothing is guessed from a rule of thumb. What saves less than 1 % of the mean
period, or could not be predicted, is no advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .stats import Number, mean
from .tables import TableSource, processes
from .what_if import WhatIf

LEAST_SHARE = 0.01
"""Of the mean period: below that nothing is advised."""
IN_FLIGHT = "two steps in flight"

Basis = Literal["predicted", "at most"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One change.

    change    its name, as in the what-ifs; IN_FLIGHT for the asynchronous hand-off
    saved_ns  of a step's mean period: predicted by the replay, or `at most`, where only a bound is known
    share     the same as a part of that period
    steps     over how many steps
    check     the command that measures it, or why there is none
    """

    change: str
    saved_ns: Number
    share: float
    basis: Basis
    steps: int
    check: str


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Means over the counted steps: the period, and what of it the host waits for the device."""

    period_ns: Number | None
    wait_ns: Number | None
    steps: int


def host_waits(recording: TableSource) -> HostWaits:
    """Over the counted steps that know both."""
    periods, waits = [], []
    for process in processes(recording):
        steps = process.counted("steps")
        (period, has_period), (wait, has_wait) = steps.ints("period_ns"), steps.ints("host_wait_ns")
        periods += period[has_period & has_wait].tolist()
        waits += wait[has_period & has_wait].tolist()
    return HostWaits(mean(periods), mean(waits), len(waits))


def advice(
    answers: Iterable[tuple[WhatIf, str]], waits: HostWaits, configuration: Mapping[str, Any]
) -> tuple[Advice, ...]:
    """The changes worth trying, largest first. `answers` are what-ifs with their checks.

    A copy or a phase that takes no or less time is a bound: no switch does exactly that. Two steps in flight can spare
    a synchronous run what its host waits, and no more while the host's own work stays.
    """
    found = [_of_replay(answer, check) for answer, check in answers]
    found.append(_in_flight(waits, configuration))
    return tuple(sorted((one for one in found if one is not None), key=lambda one: -one.saved_ns))


def _of_replay(answer: WhatIf, check: str) -> Advice | None:
    saved, period, change = answer.saved_ns, answer.period_ns, answer.change
    if saved is None or not period or saved < LEAST_SHARE * period:
        return None
    basis: Basis = "at most" if 0.0 in change.copies.values() else "predicted"
    return Advice(change.name, saved, saved / period, basis, answer.steps, check)


def _in_flight(waits: HostWaits, configuration: Mapping[str, Any]) -> Advice | None:
    runner = configuration.get("runner")
    period, wait = waits.period_ns, waits.wait_ns
    if not isinstance(runner, Mapping) or runner.get("token_handoff", "sync") != "sync" or not period:
        return None
    if wait is None or wait < LEAST_SHARE * period:
        return None
    check = "perf sweep RECORDING --param token_handoff=sync,async_auto --param interleave=token_handoff"
    return Advice(IN_FLIGHT, wait, wait / period, "at most", waits.steps, check)
