"""The arms of one launch: made together, run in turns (`interleaved`), and what is kept of each.

With `measure.keep: blocks` no recording reaches the disk: the rows stay in memory until the series of the blocks' steps
are taken from them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from ..analysis.columns import Columns
from ..analysis.step_series import step_series
from ..errors import MeasurementError
from ..instrumentation.recording.meta import Diagnostic, SweepKeys
from ..instrumentation.recording.reader import Recording
from .axes import dig
from .host_speed import OF_PROCESS, HostSpeed
from .interleaved import Blocks, TakesTurns, rotated, take_turns, warm_up
from .one_runner import AXIS, HeldRows, OneRunner
from .plan import Point, parameters
from .session import Measured, Session
from .turnstile import turns_of_process

RECORDING = "recording"


class Group(Protocol):
    """Arms that take turns. `end` comes after the last turn, while nobody else uses the machine."""

    @property
    def arms(self) -> Sequence[TakesTurns]:
        """One for each point, in their order."""
        ...

    def end(self) -> None:
        """Measure what is measured after the last step."""
        ...

    def measured(self, number: int) -> Measured:
        """What the arm gave. Anybody may use the machine meanwhile."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def measure_launch(
    points: Sequence[Point], scratch: Path, interrupted: Callable[[], bool]
) -> Iterator[tuple[Point, Path, Measured, Blocks]]:
    """Measure the points of one launch into folders below `scratch`: each with its folder, as it is done.

    After Ctrl-C nothing comes: half a launch compares nothing.
    """
    points = rotated(points)
    folders = [scratch / point.key for point in points]
    turns = turns_of_process()
    with ExitStack() as stack:
        with turns.building():
            group = stack.enter_context(closing(make_group(points, folders)))
            warm_up(group.arms, interrupted)
        with turns.measuring() as pass_on:
            found = take_turns(group.arms, points[0].spec.measure, interrupted, speed_of(points[0]), pass_on)
            if interrupted():
                return
            group.end()
        with turns.building(), stack:
            for number, (point, folder, blocks) in enumerate(zip(points, folders, found, strict=True)):
                folder.mkdir(parents=True, exist_ok=True)
                measured = group.measured(number)
                own = with_series(blocks, measured.recording) if keeps_blocks_only(point) else blocks
                yield point, folder, measured, own


def speed_of(point: Point) -> HostSpeed | None:
    """Gauged are launches that live side by side, unless their times are modelled."""
    return OF_PROCESS if point.spec.measure.resident and point.spec.device != "sim" else None


def make_group(points: Sequence[Point], folders: Sequence[Path]) -> Group:
    """One runner where the arms differ in the commit order, else a runner each."""
    one = points[0].spec.measure.interleave == AXIS
    return Switched(points, folders) if one else Runners(points, folders)


def keys_of(point: Point) -> SweepKeys:
    """Which point, launch and arm a row belongs to."""
    axis = point.spec.measure.interleave
    arm = dig(parameters(point.spec), axis) if axis else None
    return SweepKeys(point=point.id, launch=point.repeat, arm=None if arm is None else str(arm))


def keeps_blocks_only(point: Point) -> bool:
    """Whether no recording is kept of the point."""
    return point.spec.measure.keep == "blocks"


@dataclass(slots=True)
class _Arm:
    """`held` is where its rows are when no recording is kept; `found`, `notes` are there after `end`."""

    point: Point
    session: Session
    held: HeldRows | None
    found: Measured | None = None
    notes: Sequence[Diagnostic] = ()


class Runners:
    """A runner for each arm."""

    def __init__(self, points: Sequence[Point], folders: Sequence[Path]) -> None:
        self._stack = ExitStack()
        self._arms: list[_Arm] = []
        with ExitStack() as stack:
            for point, folder in zip(points, folders, strict=True):
                held = HeldRows() if keeps_blocks_only(point) else None
                session = Session(point.spec, folder / RECORDING, sweep=keys_of(point), rows=held)
                self._arms.append(_Arm(point, stack.enter_context(closing(session)), held))
            self._stack = stack.pop_all()

    @property
    def arms(self) -> Sequence[TakesTurns]:
        """See Group."""
        return [arm.session for arm in self._arms]

    def end(self) -> None:
        """T(size) is asked for where graphs were padded; it takes seconds, and who padded nothing can do without."""
        for arm in self._arms:
            arm.session.activate()
            if arm.held is None:
                arm.found = arm.session.finish(own_costs=arm.session.padded)
            else:
                arm.notes = arm.session.books(own_costs=False)

    def measured(self, number: int) -> Measured:
        """See Group."""
        arm = self._arms[number]
        if arm.found is None:
            assert arm.held is not None, "measured before the end"
            meta = arm.session.meta_of(arm.point.spec, keys_of(arm.point)).with_diagnostics(*arm.notes)
            arm.found = arm.session.measured(Recording.from_ledger(arm.held.of(0), meta), None)
        return arm.found

    def close(self) -> None:
        """See Group."""
        self._stack.close()
        self._arms.clear()
        _free()


class Switched:
    """One runner whose commit order changes from block to block."""

    def __init__(self, points: Sequence[Point], folders: Sequence[Path]) -> None:
        self._points, self._folders = points, folders
        self._shared: OneRunner | None = OneRunner([point.spec for point in points], folders[0] / RECORDING)
        self._notes: Sequence[Diagnostic] = ()

    @property
    def _one(self) -> OneRunner:
        assert self._shared is not None, "it was closed"
        return self._shared

    @property
    def arms(self) -> Sequence[TakesTurns]:
        """See Group."""
        return self._one.arms

    def end(self) -> None:
        """See Group; all arms have their costs in common."""
        self._notes = self._one.books(own_costs=False if keeps_blocks_only(self._points[0]) else None)

    def measured(self, number: int) -> Measured:
        """See Group."""
        point = self._points[number]
        folder = None if keeps_blocks_only(point) else self._folders[number] / RECORDING
        return self._one.measured(number, point.spec, folder, keys_of(point), self._notes)

    def close(self) -> None:
        """See Group."""
        self._one.close()
        self._shared = None
        _free()


def with_series(blocks: Blocks, recording: Recording) -> Blocks:
    """The blocks with `series`: name -> a value for each counted step and, last, for the step behind them.

    That step is like the others but for its period, which a turn of another arm may follow. Raises MeasurementError
    where the recording has counted steps that no block has.
    """
    steps = Columns(recording.table("steps"))
    numbers, known = steps.ints("step")
    counted = iter(sorted(numbers[known & ~steps.flags("warmup", null=True)].tolist()))
    turns = [list(islice(counted, _length(block))) for block in blocks]
    if next(counted, None) is not None:
        raise MeasurementError("more steps were counted than the blocks have; measure again")
    wanted = [[*turn, turn[-1] + 1] if turn else [] for turn in turns]
    series = step_series(recording, [step for turn in wanted for step in turn])
    begin, found = 0, []
    for block, turn in zip(blocks, wanted, strict=True):
        end = begin + len(turn)
        found.append({**block, "series": {name: values[begin:end] for name, values in series.items()}})
        begin = end
    return found


def _length(block: Mapping[str, object]) -> int:
    periods = block["periods_ns"]
    assert isinstance(periods, list)
    return len(periods)


def _free() -> None:
    """Memory of runners that are gone goes back to the device: other processes want it."""
    gc.collect()
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
