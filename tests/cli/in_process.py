"""The workers of a sweep without their processes: the same work, done here when the driver waits for it.

Starting a process costs seconds (it imports torch). That workers are processes, and what they do when they end badly,
is tested in `tests/experiments/workers`, in `test_sweep_kills.py` and by the sweeps of these tests that keep them.
"""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stepscope.experiments.identity import identity
from stepscope.experiments.workers import measuring
from stepscope.experiments.workers.task import Task, TaskDone


class Here:
    """A Launcher with one worker, which is this process. What it tells went through JSON, as a message does."""

    def __init__(self, scratch: Path, resident: int = 0, **_: object) -> None:
        self._scratch, self._tasks = scratch, deque[Task]()
        self._facts = {"host": platform.node(), "pid": os.getpid(), "device": "", "identity": identity()}

    def free(self) -> int:
        return 1 - len(self._tasks)

    def start(self, task: Task) -> None:
        self._tasks.append(Task.from_json(task.to_json()))

    def wait(self, timeout_s: float) -> list[TaskDone]:
        if not self._tasks:
            return []
        task = self._tasks.popleft()
        outcomes = measuring.measure_task(task, self._scratch / f"task-{task.number}", lambda: False)
        return [TaskDone(task, tuple(outcomes), self._facts)]

    def interrupt(self) -> None:
        self._tasks.clear()

    def close(self) -> None:
        self._tasks.clear()


@contextmanager
def no_processes() -> Iterator[pytest.MonkeyPatch]:
    """Sweeps of this machine start none as long as this holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepscope.experiments.sweep.local_workers", Here)
        patch.setattr("stepscope.experiments.launchers.wiring.local_workers", Here)
        yield patch
