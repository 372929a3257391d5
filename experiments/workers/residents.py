"""Workers that live side by side: what belongs to one launch goes to one process, in order, and waits for it there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .launcher import Workers
from .process import WorkerProcess
from .task import Task, TaskDone, all_interrupted

AHEAD = 2
"""Tasks that a worker may have, the one that it runs included: it need not wait for its driver between two."""


@dataclass(slots=True)
class _Resident:
    worker: WorkerProcess
    waiting: deque[Task] = field(default_factory=deque)

    @property
    def tasks(self) -> int:
        return len(self.waiting) + self.worker.busy


class Residents:
    """Implements Launcher. The first key goes to the first worker, the second to the second, and so around.

    `Workers` gives a task to whoever is free; here that would be a process that has to be started anew, while the one
    that is warm for the task only waits for its turn.
    """

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self._workers = Workers(workers)
        self._residents = tuple(_Resident(worker) for worker in workers)
        self._of_key: dict[str, _Resident] = {}
        self._given_up: list[TaskDone] = []

    def free(self) -> int:
        """Tasks for which there is room in all, whoever they belong to."""
        return max(0, AHEAD * len(self._residents) - sum(one.tasks for one in self._residents))

    def start(self, task: Task) -> None:
        """To the worker of its key."""
        found = self._of_key.get(task.key)
        if found is None:
            found = self._of_key[task.key] = self._residents[len(self._of_key) % len(self._residents)]
        found.waiting.append(task)
        self._hand_out()

    def wait(self, timeout_s: float) -> list[TaskDone]:
        """See Launcher."""
        done, self._given_up = self._given_up, []
        done = done or self._workers.wait(timeout_s)
        self._hand_out()
        return done

    def interrupt(self) -> None:
        """See Launcher; what has not been begun is given back at once."""
        for one in self._residents:
            self._given_up += [TaskDone(task, all_interrupted(task)) for task in one.waiting]
            one.waiting.clear()
        self._workers.interrupt()

    def close(self) -> None:
        """See Launcher."""
        self._workers.close()

    def _hand_out(self) -> None:
        for one in self._residents:
            if one.waiting and not one.worker.busy:
                one.worker.start(one.waiting.popleft())
