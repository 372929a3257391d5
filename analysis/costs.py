"""What launches and host waits cost beside the work itself, as a recording shows it, for use where it does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .tables import BoolArray, LongArray, Table, floats, texts

CALIBRATED_LATENCY = {
    "copy": "copy", "pageable": "copy", "blocking": "copy", "kernel": "kernel", "memset": "kernel", "graph": "graph",
}
"""Group of operations -> key of `launch_latency_ns` in the table `calibration`."""


def calibrated(calibration: Table, name: str, key: str) -> int | None:
    """One calibrated constant in ns, None where the table has none."""
    values, valid = floats(calibration, "value")
    rows = zip(texts(calibration, "name"), texts(calibration, "key"), values, valid, strict=True)
    return next((round(float(value)) for found, at, value, ok in rows if ok and (found, at) == (name, key)), None)


def launch_latencies(
    calibration: Table, groups: Sequence[str], delay_ns: LongArray, host_started: BoolArray
) -> dict[str, int]:
    """Latency from the end of the call to the start on an idle queue, by group (`Operations.latency_group`).

    The lower median over operations that the host itself started (`host_started`, nothing on the device held them
    back). Where these are less than a tenth of a group they are exceptions (an eager forward among decode steps, whose
    call ends milliseconds behind its first kernel), and it takes the calibrated latency, else that of the others
    together, but never more than its own small delays: nine in ten of them are longer. The smallest may be that of a
    call which handed its work over and was then held up on the host.
    """
    names = np.array(groups, dtype=object)
    found = {}
    anyone = np.sort(delay_ns[host_started])
    for group in dict.fromkeys(groups):
        mine = names == group
        free = np.sort(delay_ns[mine & host_started])
        if len(free) * 10 > mine.sum():
            found[group] = int(free[(len(free) - 1) // 2])
            continue
        constant = calibrated(calibration, "launch_latency_ns", CALIBRATED_LATENCY.get(group, "kernel"))
        if constant is None and len(anyone):
            constant = int(anyone[(len(anyone) - 1) // 2])
        ordered = np.sort(delay_ns[mine])
        small = int(ordered[(len(ordered) - 1) // 10])
        found[group] = small if constant is None else min(constant, small)
    return found


@dataclass(frozen=True, slots=True)
class WaitCosts:
    """A host wait returns at max(call + overhead, end of the operation + wake-up)."""

    overhead_ns: int
    wakeup_ns: int

    def of(self, call_ns: int, back_ns: int, done_ns: int) -> tuple[int, int]:
        """(overhead, wake-up) of one wait, such that a replay returns exactly when the recorded one did.

        The term that was binding is what the recording shows; the other one is the usual cost, as far as it fits.
        """
        took, after = back_ns - call_ns, back_ns - done_ns
        if done_ns + self.wakeup_ns < call_ns + self.overhead_ns:
            return took, min(self.wakeup_ns, after)
        return max(0, min(self.overhead_ns, took)), after


def wait_costs(calibration: Table, waits: Sequence[tuple[int, int, int]]) -> WaitCosts:
    """Usual costs from (call, return, end of the awaited operation) of all waits; lower medians.

    Wake-up from waits that were called before the operation's end, overhead from those called a wake-up or more after
    it. A cost that no wait shows is the calibrated one (`host_cost_ns` event_synchronize, `sync_wakeup_ns` event), or
    else the other of the two.
    """
    wakeup = _lower_median([back - done for call, back, done in waits if done > call])
    if wakeup is None:
        wakeup = calibrated(calibration, "sync_wakeup_ns", "event")
    overhead = _lower_median([back - call for call, back, done in waits if done + (wakeup or 0) <= call])
    if overhead is None:
        overhead = calibrated(calibration, "host_cost_ns", "event_synchronize")
    known = [cost for cost in (overhead, wakeup) if cost is not None] or [0]
    return WaitCosts(known[0] if overhead is None else overhead, known[0] if wakeup is None else wakeup)


def _lower_median(values: list[int]) -> int | None:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
