"""What the machine did while a block ran, and whether that spoils the pair which the block belongs to.

A pair goes with both its arms or not at all: to leave out the slow blocks of one arm would decide the comparison. The
bounds are the same for both arms and look at the machine, never at the blocks' times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .pairs import THROTTLED

MAX_STEAL = 0.1
MAX_WAIT = 0.9
"""Shares of a block's time: taken by the hypervisor; the arm ready without a core. Above, hardly anything was run."""
MAX_WAIT_CHANGE = 0.25
MAX_CLOCK_CHANGE = 0.1
"""How far the two blocks of a pair may differ: in the share without a core; in a clock, as a fraction of it. A machine
that is evenly busy makes both blocks noisy, and noise is for the statistics to judge."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of one block; None where the machine does not say.

    throttle        or-ed clock-event reasons (NVML bits) seen in the block
    sm_mhz, temperature_c   means of its samples
    foreign         processes on the device that were not there when both arms had been built
    steal_share     of the machine's time;  wait_share  of the block in which the arm was ready and had no core
    cpu_mhz, load   mean over cores at the block's end, and the 1-minute load
    migrations      the arm's moves between cores;  involuntary  times that it was put aside for another process
    """

    throttle: int | None = None
    sm_mhz: float | None = None
    temperature_c: float | None = None
    foreign: int | None = None
    steal_share: float | None = None
    wait_share: float | None = None
    cpu_mhz: float | None = None
    load: float | None = None
    migrations: int | None = None
    involuntary: int | None = None


def spoiled_by(base: Conditions, head: Conditions) -> str | None:
    """Why the pair is dropped, or None."""
    both = (base, head)
    if any((block.throttle or 0) & THROTTLED for block in both):
        return "device throttled"
    if any(block.foreign or 0 for block in both):
        return "another process on the device"
    if _differ(base.sm_mhz, head.sm_mhz):
        return "device clock changed"
    if any((block.steal_share or 0) > MAX_STEAL for block in both):
        return "processor taken away (steal)"
    if any((block.wait_share or 0) > MAX_WAIT for block in both):
        return "no free core"
    if _apart(base.wait_share, head.wait_share) > MAX_WAIT_CHANGE:
        return "cores free for one block only"
    return "processor clock changed" if _differ(base.cpu_mhz, head.cpu_mhz) else None


def _apart(left: float | None, right: float | None) -> float:
    return 0.0 if left is None or right is None else abs(left - right)


def _differ(left: float | None, right: float | None) -> bool:
    return left is not None and right is not None and abs(left - right) > MAX_CLOCK_CHANGE * max(left, right)


def told(blocks: Iterable[Conditions], drops: Iterable[str | None]) -> tuple[str, ...]:
    """Sentences about all blocks: pairs dropped and why, and the ranges of what was seen."""
    pairs = list(drops)
    counts = Counter(reason for reason in pairs if reason is not None)
    why = "".join(f", {count} {reason}" for reason, count in counts.most_common())
    said = [f"telemetry dropped {counts.total()} of {len(pairs)} pairs, both arms each{why}"]
    seen = list(blocks)
    for field, text in (
        ("load", "load {:.1f} to {:.1f}"), ("wait_share", "arms ready without a core {:.0%} to {:.0%} of a block"),
        ("steal_share", "steal {:.1%} to {:.1%}"), ("migrations", "moves between cores {:.0f} to {:.0f} a block"),
        ("sm_mhz", "device clock {:.0f} to {:.0f} MHz"), ("temperature_c", "device at {:.0f} to {:.0f} degrees C"),
        ("cpu_mhz", "processor clock {:.0f} to {:.0f} MHz"),
    ):  # fmt: skip
        known = [float(value) for block in seen if (value := getattr(block, field)) is not None]
        if known:
            said.append(text.format(min(known), max(known)))
    return ("; ".join(said),)
