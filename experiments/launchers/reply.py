"""How a worker on another machine answers: outcomes, the files of their points, and where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import MeasurementError
from ..workers.failures import classify, describe
from ..workers.task import Outcome, Task, TaskDone
from .parcels import Files, read_files, write_files


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a task, without a disk.

    outcomes  of its points; their folders mean nothing here
    files     of the points, by their keys
    worker    as TaskDone has it
    """

    outcomes: tuple[Outcome, ...]
    files: Mapping[str, Files]
    worker: Mapping[str, Any]

    @classmethod
    def of(cls, done: TaskDone) -> Reply:
        """What `done` has, with its files read. Points whose files cannot be sent have failed."""
        outcomes, files = [], {}
        for outcome in done.outcomes:
            if outcome.folder is not None:
                try:
                    files[outcome.key] = read_files(outcome.folder)
                except (OSError, MeasurementError) as error:
                    outcome = Outcome(outcome.key, "failed", classify(error), describe(error), outcome.wall_s)
            outcomes.append(replace(outcome, folder=None))
        return cls(tuple(outcomes), files, done.worker)

    def to_plain(self) -> dict[str, Any]:
        """Plain values and bytes, for any wire."""
        return {
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "files": dict(self.files),
            "worker": dict(self.worker),
        }

    @classmethod
    def from_plain(cls, tree: Mapping[str, Any]) -> Reply:
        """The reply in `to_plain`'s tree. Raises KeyError or TypeError for anything else."""
        return cls(tuple(Outcome.from_json(one) for one in tree["outcomes"]), tree["files"], tree["worker"])

    def unpacked(self, task: Task, folder: Path) -> TaskDone:
        """The end of `task` here, with the files of its points below `folder`. Raises ValueError, OSError."""
        if {outcome.key for outcome in self.outcomes} != {point.key for point in task.points}:
            raise ValueError(f"it told of {[outcome.key for outcome in self.outcomes]} instead of its task's points")
        outcomes = []
        for outcome in self.outcomes:
            if outcome.key in self.files:
                write_files(self.files[outcome.key], folder / outcome.key)
                outcome = replace(outcome, folder=folder / outcome.key)
            outcomes.append(outcome)
        return TaskDone(task, tuple(outcomes), self.worker)
