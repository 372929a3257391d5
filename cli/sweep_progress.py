"""Progress of a sweep on stderr: a bar on a terminal, one plain line a point elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..experiments.observer import SweepObserver
    from ..experiments.plan import Point
    from ..experiments.store import PointResult


def watch_sweep(how: str = "auto") -> SweepObserver:
    """The observer called `how`; auto: the one that fits where stderr goes. Raises UsageError for an unknown name."""
    makers: dict[str, Callable[[], SweepObserver]] = {"bar": BarProgress, "plain": LineProgress, "json": JsonProgress}
    if how == "auto":
        how = "bar" if sys.stderr.isatty() else "plain"
    if how not in makers:
        raise UsageError(f"--progress: {how} is unknown; one of auto, {', '.join(makers)}")
    return makers[how]()


def outcome_text(result: PointResult) -> str:
    """`ok`, or what happened and why."""
    if result.status == "ok":
        return "ok"
    if result.status == "skipped":
        return f"skipped: {result.reason}"
    kind = f" ({result.kind})" if result.kind not in ("", "error") else ""
    return f"FAILED{kind}: {result.reason}"


class Counts:
    """Points so far, and the seconds that the rest will take at the pace of this run."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._begin_s = 0.0
        self.total = self.done = self.failed = self.skipped = self._before = 0

    def begin(self, total: int, already_done: int) -> None:
        """The first point is about to start."""
        self._begin_s = self._now_s()
        self.total, self.done, self._before = total, already_done, already_done
        self.failed = self.skipped = 0

    def add(self, result: PointResult) -> None:
        """One more."""
        self.done += 1
        self.failed += result.status == "failed"
        self.skipped += result.status == "skipped"

    @property
    def left_s(self) -> float | None:
        """None until a point of this run is done."""
        measured = self.done - self._before - self.skipped
        if not measured:
            return None
        return (self._now_s() - self._begin_s) / measured * (self.total - self.done)


class LineProgress:
    """`[ 3/84] steady_first  ok  1.2 s  (2 min left)`, one line as each point ends."""

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts = counts or Counts()

    def started(self, total: int, already_done: int) -> None:
        """Say how much lies ahead."""
        self._counts.begin(total, already_done)
        before = f", {already_done} measured before" if already_done else ""
        _say(f"{total} points{before}")

    def point_started(self, point: Point) -> None:
        """Nothing: the line comes when the point ends."""

    def point_finished(self, result: PointResult) -> None:
        """One line."""
        counts = self._counts
        counts.add(result)
        width = len(str(counts.total))
        number = f"[{counts.done:{width}}/{counts.total}]"
        took = f"  {result.wall_s:.1f} s" if result.status != "skipped" else ""
        _say(f"{number} {result.point.title}  {outcome_text(result)}{took}{_left(counts)}")

    def ended(self) -> None:
        """Nothing is left to close."""


def _left(counts: Counts) -> str:
    from ..experiments.estimate import duration

    left_s = counts.left_s
    return "" if left_s is None or counts.done == counts.total else f"  ({duration(left_s)} left)"


class JsonProgress:
    """One JSON object a line, for machines: `event` is started, point_started, point_finished or ended.

    Times are seconds; `left_s` is null until a point is done.
    """

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts = counts or Counts()

    def started(self, total: int, already_done: int) -> None:
        """`total` and `done`."""
        self._counts.begin(total, already_done)
        self._tell("started")

    def point_started(self, point: Point) -> None:
        """Which."""
        self._tell("point_started", point)

    def point_finished(self, result: PointResult) -> None:
        """Which, and how it ended."""
        self._counts.add(result)
        self._tell(
            "point_finished", result.point, status=result.status, kind=result.kind, reason=result.reason,
            wall_s=round(result.wall_s, 3),
        )  # fmt: skip

    def ended(self) -> None:
        """The last line."""
        self._tell("ended")

    def _tell(self, event: str, point: Point | None = None, **more: object) -> None:
        counts, left_s = self._counts, self._counts.left_s
        which = {} if point is None else {"point": point.id, "launch": point.repeat, "name": point.slug}
        totals = {"done": counts.done, "total": counts.total, "failed": counts.failed, "skipped": counts.skipped}
        left = None if left_s is None else round(left_s, 1)
        _say(json.dumps({"event": event, **which, **more, **totals, "left_s": left}))


class BarProgress:
    """A rich bar with the running points' names; failures stay above it as lines."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._counts = Counts()
        self._running: dict[str, str] = {}
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._bar.add_task("", total=None, left="")

    def started(self, total: int, already_done: int) -> None:
        """Draw the bar."""
        self._counts.begin(total, already_done)
        self._bar.update(self._task, total=total, completed=already_done)
        self._bar.start()

    def point_started(self, point: Point) -> None:
        """Name the running points."""
        self._running[point.key] = point.title
        self._draw()

    def point_finished(self, result: PointResult) -> None:
        """Advance; a failure is told above the bar."""
        self._counts.add(result)
        self._running.pop(result.point.key, None)
        if result.status != "ok":
            told = f"{result.point.title}: {outcome_text(result)}"
            self._bar.console.print(told, markup=False, highlight=False)
        self._draw()

    def _draw(self) -> None:
        failed = f"{self._counts.failed} failed  " if self._counts.failed else ""
        names = list(self._running.values())
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self._bar.update(
            self._task, completed=self._counts.done, left=_left(self._counts).strip(" ()"),
            description=f"{failed}{names[0] if names else ''}{more}",
        )  # fmt: skip

    def ended(self) -> None:
        """Leave the terminal as it was."""
        self._running.clear()
        self._draw()
        self._bar.stop()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
