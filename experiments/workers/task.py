"""What a worker gets and what it gives back, as plain data: no store and no shared disk stand between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...errors import UsageError
from ..point import Point, point_entry, read_point

OutcomeStatus = Literal["ok", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured together in one process: one point, or the arms of one launch that take turns.

    number     its place in the sweep
    key        tasks with equal keys may follow one another in one process
    fresh      it asks for a process in which nothing was measured before
    timeout_s  wall seconds that each of its points may take; None: no limit
    """

    number: int
    points: tuple[Point, ...]
    key: str
    fresh: bool = False
    timeout_s: float | None = None

    @property
    def limit_s(self) -> float | None:
        """Wall seconds for all of it."""
        return None if self.timeout_s is None else self.timeout_s * len(self.points)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for any wire."""
        return {
            "number": self.number, "points": [point_entry(point) for point in self.points], "key": self.key,
            "fresh": self.fresh, "timeout_s": self.timeout_s,
        }  # fmt: skip

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Task:
        """The task in `to_json`'s tree. Raises UsageError for anything else."""
        try:
            points = tuple(read_point(entry) for entry in tree["points"])
            return cls(tree["number"], points, tree["key"], tree["fresh"], tree["timeout_s"])
        except (KeyError, TypeError) as error:
            raise UsageError(f"task: is none of ours ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one point of a task ended.

    key     the point's
    kind    the class of a failure (see `failures`); empty when it ended well
    record  what summary.json says beside the status
    folder  where its files lie, on the machine of whoever reads this; None where it left none. They may be moved.
    """

    key: str
    status: OutcomeStatus
    kind: str = ""
    reason: str = ""
    wall_s: float = 0.0
    record: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; the folder as text."""
        return {
            "key": self.key, "status": self.status, "kind": self.kind, "reason": self.reason, "wall_s": self.wall_s,
            "record": dict(self.record), "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Outcome:
        """The outcome in `to_json`'s tree. Raises KeyError or TypeError for anything else."""
        folder = None if tree["folder"] is None else Path(tree["folder"])
        return cls(
            tree["key"],
            tree["status"],
            tree["kind"],
            tree["reason"],
            float(tree["wall_s"]),
            dict(tree["record"]),
            folder,
        )


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task that came to an end.

    worker          where it was measured: host, pid, device, identity (see `experiments.identity`)
    lost_elsewhere  the node went away, not the point: the task may be run again on another one
    """

    task: Task
    outcomes: tuple[Outcome, ...]
    worker: Mapping[str, Any] = field(default_factory=dict)
    lost_elsewhere: bool = False


def all_failed(task: Task, kind: str, reason: str, wall_s: float) -> tuple[Outcome, ...]:
    """Every point of `task` with the same failure."""
    return tuple(Outcome(point.key, "failed", kind, one_line(reason), wall_s) for point in task.points)


def all_interrupted(task: Task) -> tuple[Outcome, ...]:
    """Every point of `task` as if it had not been begun."""
    return tuple(Outcome(point.key, "interrupted") for point in task.points)


def one_line(text: str) -> str:
    """`text` without line breaks."""
    return " ".join(text.split())


def points_by_key(points: Sequence[Point]) -> dict[str, Point]:
    """Points by their key."""
    return {point.key: point for point in points}
