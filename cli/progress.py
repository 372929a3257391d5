"""Progress on stderr: a bar on a terminal, one plain line a point elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..experiments.plan import Point
    from ..experiments.store import PointResult


def watch_sweep() -> BarProgress | LineProgress:
    """The observer that fits where stderr goes."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def _outcome(result: PointResult) -> str:
    return "ok" if result.status == "ok" else f"FAILED: {result.reason}"


class LineProgress:
    """`[ 3/84] steady_first  ok  1.2 s`, one line as each point ends."""

    def __init__(self) -> None:
        self._total = 0
        self._number = 0

    def started(self, total: int, already_done: int) -> None:
        """Say how much lies ahead."""
        self._total, self._number = total, already_done
        before = f", {already_done} measured before" if already_done else ""
        self._say(f"{total} points{before}")

    def point_started(self, point: Point) -> None:
        """Nothing: the line comes when the point ends."""

    def point_finished(self, result: PointResult) -> None:
        """One line."""
        self._number += 1
        width = len(str(self._total))
        count = f"[{self._number:{width}}/{self._total}]"
        self._say(f"{count} {result.point.slug}  {_outcome(result)}  {result.wall_s:.1f} s")

    def ended(self) -> None:
        """Nothing is left to close."""

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class BarProgress:
    """A rich bar with the running point's name; failures stay above it as lines."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._bar.add_task("", total=None)

    def started(self, total: int, already_done: int) -> None:
        """Draw the bar."""
        self._bar.update(self._task, total=total, completed=already_done)
        self._bar.start()

    def point_started(self, point: Point) -> None:
        """Name the running point."""
        self._bar.update(self._task, description=point.slug)

    def point_finished(self, result: PointResult) -> None:
        """Advance; a failure is told above the bar."""
        if result.status != "ok":
            self._bar.console.print(f"{result.point.slug}: {_outcome(result)}", markup=False, highlight=False)
        self._bar.advance(self._task)

    def to(self, done: int, what: str) -> None:
        """Stand at `done`."""
        self._bar.update(self._task, completed=done, description=what)

    def ended(self) -> None:
        """Leave the terminal as it was."""
        self._bar.update(self._task, description="")
        self._bar.stop()


class StepWatcher(Protocol):
    """Told how far a single run has come."""

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` requests are answered."""
        ...


class RunProgress:
    """A run's progress in answered requests (a context manager): a bar on a terminal, a line each tenth elsewhere."""

    def __init__(self) -> None:
        self._bar = BarProgress() if sys.stderr.isatty() else None
        self._tenths = 0
        self._drawn = -1

    def __enter__(self) -> StepWatcher:
        return self._line if self._bar is None else self._draw

    def _draw(self, done: int, total: int) -> None:
        assert self._bar is not None
        if self._drawn < 0:
            self._bar.started(total, 0)
        if done != self._drawn:
            self._drawn = done
            self._bar.to(done, "requests answered")

    def _line(self, done: int, total: int) -> None:
        tenths = 10 * done // total
        if tenths > self._tenths:
            self._tenths = tenths
            sys.stderr.write(f"{done} of {total} requests answered\n")
            sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None and self._drawn >= 0:
            self._bar.ended()
