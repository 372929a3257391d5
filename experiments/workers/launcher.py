"""Who has workers: a launcher takes tasks while it has a free one, and tells which came to an end."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from typing import Protocol

from .process import WorkerProcess
from .task import Task, TaskDone


class Launcher(Protocol):
    """Called from one thread. A worker has one task at a time."""

    def free(self) -> int:
        """How many tasks `start` takes now."""
        ...

    def start(self, task: Task) -> None:
        """Hand `task` to a free worker."""
        ...

    def wait(self, timeout_s: float) -> list[TaskDone]:
        """Tasks that came to an end; waits for one at most `timeout_s`. Files of their points are the caller's now."""
        ...

    def interrupt(self) -> None:
        """Every task is to stop soon: it ends with outcomes `interrupted`, or as it would have ended."""
        ...

    def close(self) -> None:
        """End all workers, whatever they do."""
        ...


class Workers:
    """Worker processes of this machine, in one thread."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        assert workers, "there is no worker"
        self._workers = tuple(workers)

    def free(self) -> int:
        """Workers without a task."""
        return sum(not worker.busy for worker in self._workers)

    def start(self, task: Task) -> None:
        """To the worker that is warm for it, else to any free one."""
        idle = [worker for worker in self._workers if not worker.busy]
        next((worker for worker in idle if worker.warm_for(task)), idle[0]).start(task)

    def wait(self, timeout_s: float) -> list[TaskDone]:
        """See Launcher; a limit of a task ends the waiting too."""
        found = self._poll()
        if found:
            return found
        due = [worker.due_s for worker in self._workers if worker.due_s is not None]
        until_s = min([timeout_s, *(max(moment - time.monotonic(), 0.0) for moment in due)])
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                for descriptor in worker.streams():
                    selector.register(descriptor, selectors.EVENT_READ)
            selector.select(until_s)
        return self._poll()

    def _poll(self) -> list[TaskDone]:
        return [done for worker in self._workers if (done := worker.poll()) is not None]

    def interrupt(self) -> None:
        """See Launcher."""
        for worker in self._workers:
            worker.interrupt()

    def close(self) -> None:
        """See Launcher."""
        for worker in self._workers:
            worker.close()
