"""Who watches a sweep while it runs: a progress bar, plain lines, or nobody."""

from __future__ import annotations

from typing import Protocol

from .plan import Point
from .store import PointResult


class SweepObserver(Protocol):
    """Told of each border of a sweep. Calls come from the process that runs it, in order."""

    def started(self, total: int, already_done: int) -> None:
        """`total` points are planned, `already_done` of them were measured before (resume)."""
        ...

    def point_started(self, point: Point) -> None:
        """`point` is being measured."""
        ...

    def point_finished(self, result: PointResult) -> None:
        """The point is on disk, measured or failed."""
        ...

    def ended(self) -> None:
        """The last point is done, or the sweep was interrupted."""
        ...


class Unwatched:
    """Nobody watches."""

    def started(self, total: int, already_done: int) -> None:
        """Ignored."""

    def point_started(self, point: Point) -> None:
        """Ignored."""

    def point_finished(self, result: PointResult) -> None:
        """Ignored."""

    def ended(self) -> None:
        """Ignored."""


UNWATCHED = Unwatched()
