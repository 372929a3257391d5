"""Progress of a single run on stderr: a bar on a terminal, a line each tenth elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol


class StepWatcher(Protocol):
    """Told how far a single run has come."""

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` requests are answered."""
        ...


class RequestBar:
    """A rich bar of answered requests."""

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
        self._task = self._bar.add_task("requests answered", total=None)

    def start(self, total: int) -> None:
        """Draw it."""
        self._bar.update(self._task, total=total, completed=0)
        self._bar.start()

    def to(self, done: int) -> None:
        """Stand at `done`."""
        self._bar.update(self._task, completed=done)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        self._bar.update(self._task, description="")
        self._bar.stop()


class RunProgress:
    """A run's progress in answered requests (a context manager): a bar on a terminal, a line each tenth elsewhere."""

    def __init__(self) -> None:
        self._bar = RequestBar() if sys.stderr.isatty() else None
        self._tenths = 0
        self._drawn = -1

    def __enter__(self) -> StepWatcher:
        return self._line if self._bar is None else self._draw

    def _draw(self, done: int, total: int) -> None:
        assert self._bar is not None
        if self._drawn < 0:
            self._bar.start(total)
        if done != self._drawn:
            self._drawn = done
            self._bar.to(done)

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
            self._bar.stop()
