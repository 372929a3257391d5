"""Arms measured side by side in one process: they take turns, block by block, in the order A B B A.

Commit orders share one runner (`one_runner`); arms that differ in what a runner is built of have one each.

One process has one launch's worth of luck (addresses, clocks, neighbours on the machine), and what it has falls on all
arms alike: what is compared is the difference between arms within a launch, and launches are what is counted. A launch
is a process of its own (`workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from .host_speed import HostSpeed
from .loop import LoopLimits
from .plan import Point
from .spec import MeasureSpec
from .visits import begins, settle_steps

Blocks = list[dict[str, object]]
"""One arm's blocks, as they are stored: {"order": place among all arms' blocks, "periods_ns": [one a step]}; with
`gauge_ns`, the slower of the core's speeds before and behind it, where the host was gauged (`host_speed`)."""


def turns(arms: int, blocks: int) -> list[int]:
    """Which arm each block belongs to: 0 1 2 | 2 1 0 | 0 1 2 ..., so that a drift falls on all of them alike."""
    return [arm if turn % 2 == 0 else arms - 1 - arm for turn in range(blocks) for arm in range(arms)]


class TakesTurns(Protocol):
    """A session, or an arm that shares one."""

    @property
    def warmup_steps(self) -> int:
        """Steps before everything else."""
        ...

    def activate(self) -> None:
        """It is the one that works now."""
        ...

    def run(self, limits: LoopLimits, interrupted: Callable[[], bool] = ...) -> None:
        """Go on until `limits`."""
        ...

    def hand_over(self) -> None:
        """Nothing is measured now: rows may be moved."""
        ...

    def block(self, settle: int, steps: int, interrupted: Callable[[], bool] = ...) -> list[int]:
        """Starts of `steps` counted steps and of the one behind them."""
        ...


def warm_up(sessions: Sequence[TakesTurns], interrupted: Callable[[], bool] = lambda: False) -> None:
    """Bring every session to where its blocks begin; nothing is measured."""
    for session in sessions:
        session.activate()
        session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0), interrupted)
        session.hand_over()


def take_turns(
    sessions: Sequence[TakesTurns], measure: MeasureSpec, interrupted: Callable[[], bool] = lambda: False,
    speed: HostSpeed | None = None, pass_on: Callable[[], None] = lambda: None,
) -> list[Blocks]:  # fmt: skip
    """Run the blocks of all sessions, each of which was warmed up, in turns. Returns the blocks of each session.

    Each block begins with steps that are not counted, because the caches hold another arm's data, and ends with one
    more, because its last period would hold the turns of the other arms. The rows of these steps carry `warmup`.
    `speed` measures the host's speed around each block. `pass_on` is called before each visit but the first, and lets
    other processes measure.
    """
    found: list[Blocks] = [[] for _ in sessions]
    for order, arm in enumerate(turns(len(sessions), measure.blocks)):
        if interrupted():
            break
        round_, place = divmod(order, len(sessions))
        if round_ and not place and begins(measure, round_):
            pass_on()
        session = sessions[arm]
        session.activate()
        gauge_ns = None if speed is None else speed.rested_ns()
        starts = session.block(settle_steps(measure, round_), measure.block_steps, interrupted)
        periods = [later - earlier for earlier, later in pairwise(starts)]
        found[arm].append({"order": order, "periods_ns": periods})
        if speed is not None and gauge_ns is not None:
            found[arm][-1]["gauge_ns"] = max(gauge_ns, speed.gauge_ns())
    return found


def rotated(points: Sequence[Point]) -> list[Point]:
    """The points of one launch in its own order: what comes of being made first, or next to whom, goes around."""
    first = points[0].repeat % len(points)
    return [*points[first:], *points[:first]]
