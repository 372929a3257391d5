"""Arms measured side by side in one process: they take turns, block by block, in the order A B B A.

Commit orders share one runner (`one_runner`); arms that differ in what a runner is built of have one each.

One process has one launch's worth of luck (addresses, clocks, neighbours on the machine), and what it has falls on all
arms alike: what is compared is the difference between arms within a launch, and launches are what is counted. A launch
is a process of its own, `python -m stepscope.experiments.interleaved SWEEP_FOLDER POINT_ID...`; `sweep` starts it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from ..errors import StepscopeError
from ..instrumentation.recording.meta import SweepKeys
from ..runner.models.weights import shared_weights
from .axes import dig
from .interrupt import Interrupt
from .loop import LoopLimits
from .one_runner import AXIS, OneRunner
from .plan import Point, parameters
from .session import Measured, Session
from .spec import MeasureSpec
from .store import PointResult, SweepStore
from .summary import origin_of, summary_of

RECORDING = "recording"
Blocks = list[dict[str, object]]
"""One arm's blocks, as they are stored: {"order": place among all arms' blocks, "periods_ns": [one a step]}."""


def turns(arms: int, blocks: int) -> list[int]:
    """Which arm each block belongs to: 0 1 2 | 2 1 0 | 0 1 2 ..., so that a drift falls on all of them alike."""
    return [arm if turn % 2 == 0 else arms - 1 - arm for turn in range(blocks) for arm in range(arms)]


class TakesTurns(Protocol):
    """What `interleave` needs of a session, or of an arm that shares one."""

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


def interleave(
    sessions: Sequence[TakesTurns], measure: MeasureSpec, interrupted: Callable[[], bool] = lambda: False
) -> list[Blocks]:
    """Warm every session up, then run their blocks in turns; the blocks of each.

    Each block begins with steps that are not counted, because the caches are another arm's, and ends with one, because
    the last period would be that of the other arms. Their rows carry `warmup`.
    """
    found: list[Blocks] = [[] for _ in sessions]
    for session in sessions:
        session.activate()
        session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0), interrupted)
        session.hand_over()
    for order, arm in enumerate(turns(len(sessions), measure.blocks)):
        if interrupted():
            break
        session = sessions[arm]
        session.activate()
        starts = session.block(measure.settle_steps, measure.block_steps, interrupted)
        periods = [later - earlier for earlier, later in pairwise(starts)]
        found[arm].append({"order": order, "periods_ns": periods})
    return found


def rotated(points: Sequence[Point]) -> list[Point]:
    """The points of one launch in its own order: what comes of being made first, or next to whom, goes around."""
    first = points[0].repeat % len(points)
    return [*points[first:], *points[:first]]


def measure_launch(store: SweepStore, points: Sequence[Point], interrupt: Interrupt) -> None:
    """Measure the points of one launch and store them. After Ctrl-C nothing is kept: half a launch compares nothing."""
    started = time.perf_counter()
    points = rotated(points)
    folders = [store.begin(point) for point in points]
    run = _one_runner if points[0].spec.measure.interleave == AXIS else _runners
    try:
        with shared_weights():
            found = run(points, folders, interrupt)
            for point, folder, (measured, blocks) in zip(points, folders, found, strict=False):
                record = {
                    "parameters": parameters(point.spec), **summary_of(measured), **origin_of(measured),
                    "blocks": blocks,
                }  # fmt: skip
                store.finish(folder, PointResult(point, "ok", wall_s=time.perf_counter() - started), record)
    finally:
        for folder in folders:
            store.abandon(folder)  # nothing is there any more where the point was stored


def _runners(
    points: Sequence[Point], folders: Sequence[Path], interrupt: Interrupt
) -> Iterator[tuple[Measured, Blocks]]:
    """A runner for each point; nothing after Ctrl-C."""
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(closing(Session(point.spec, folder / RECORDING, sweep=_keys(point))))
            for point, folder in zip(points, folders, strict=True)
        ]
        found = interleave(sessions, points[0].spec.measure, lambda: interrupt.requested)
        if interrupt.requested:
            return
        for session, blocks in zip(sessions, found, strict=True):
            session.activate()
            # T(size) is asked for where graphs were padded; it takes seconds, and who padded nothing can do without
            yield session.finish(own_costs=session.padded), blocks


def _one_runner(
    points: Sequence[Point], folders: Sequence[Path], interrupt: Interrupt
) -> Iterator[tuple[Measured, Blocks]]:
    """One runner whose commit order changes from block to block; nothing after Ctrl-C."""
    with closing(OneRunner([point.spec for point in points], folders[0] / RECORDING)) as shared:
        found = interleave(shared.arms, points[0].spec.measure, lambda: interrupt.requested)
        if interrupt.requested:
            return
        notes = shared.books()
        for number, (point, folder, blocks) in enumerate(zip(points, folders, found, strict=True)):
            yield shared.measured(number, point.spec, folder / RECORDING, _keys(point), notes), blocks


def _keys(point: Point) -> SweepKeys:
    axis = point.spec.measure.interleave
    arm = dig(parameters(point.spec), axis) if axis else None
    return SweepKeys(point=point.id, launch=point.repeat, arm=None if arm is None else str(arm))


def main(argv: Sequence[str]) -> int:
    """The process of one launch: 0 done, 130 interrupted, else a line on stderr that says why not."""
    root, ids = Path(argv[0]), set(argv[1:])
    try:
        store = SweepStore.open(root)
        with Interrupt() as interrupt:
            measure_launch(store, [point for point in store.plan.points if point.id in ids], interrupt)
    except StepscopeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 130 if interrupt.requested else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
