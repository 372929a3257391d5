"""Progress of `perf sizes` on stderr: a bar a stage on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..experiments.interrupt import Interrupt

LINE_EVERY_S = 2.0


class Stages:
    """See experiments.sizing.watch.SizesWatch; a context manager that leaves the terminal as it was.

    `interrupt` is whom a Ctrl-C tells.
    """

    def __init__(self, interrupt: Interrupt, now_s: Callable[[], float] = time.monotonic) -> None:
        self._interrupt = interrupt
        self._stage: Callable[[str, int], _Lines | _Bar] = _Bar if sys.stderr.isatty() else self._lines
        self._now_s = now_s
        self._at: _Lines | _Bar | None = None

    def _lines(self, what: str, total: int) -> _Lines:
        return _Lines(what, total, self._now_s)

    @property
    def interrupted(self) -> bool:
        """See SizesWatch."""
        return self._interrupt.requested

    def note(self, line: str) -> None:
        """See SizesWatch."""
        _say(line)

    def begin(self, what: str, total: int) -> None:
        """See SizesWatch."""
        self.end()
        self._at = self._stage(what, total)

    def to(self, done: int) -> None:
        """See SizesWatch."""
        if self._at is not None:
            self._at.to(done)

    def end(self) -> None:
        """See SizesWatch."""
        if self._at is not None:
            self._at.stop()
            self._at = None

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class _Lines:
    """`steps run: 300 of 728 (4 s left)`, no oftener than every LINE_EVERY_S."""

    def __init__(self, what: str, total: int, now_s: Callable[[], float]) -> None:
        self._what, self._total, self._now_s = what, total, now_s
        self._begin_s = self._said_s = now_s()

    def to(self, done: int) -> None:
        from ..experiments.estimate import duration

        now_s = self._now_s()
        if not done or now_s - self._said_s < LINE_EVERY_S:
            return
        self._said_s = now_s
        left = duration((now_s - self._begin_s) / done * (self._total - done))
        _say(f"{self._what}: {done:,} of {self._total:,} ({left} left)")

    def stop(self) -> None:
        """Nothing is left to close."""


class _Bar:
    """A rich bar."""

    def __init__(self, what: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns: tuple[Any, ...] = (
            BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )  # fmt: skip
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=total)
        self._bar.start()

    def to(self, done: int) -> None:
        self._bar.update(self._task, completed=done)

    def stop(self) -> None:
        self._bar.stop()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
