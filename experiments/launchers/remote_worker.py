"""A worker on a machine of a cluster: it keeps a warm process there, and gives results back as plain data."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...instrumentation.visible import VARIABLE, host_gpus, visible_names
from ..identity import identity
from ..workers.failures import classify, describe
from ..workers.launcher import Workers
from ..workers.process import WorkerProcess
from ..workers.task import Task, TaskDone, all_failed
from .gpu_locks import GpuLocks
from .reply import Reply

WAIT_S = 1.0
"""Between two looks at the process; it wakes its watcher when it has something to say."""
_PREFIX = "stepscope-worker-"


class RemoteWorker:
    """Lives in a process that the cluster gave a GPU (CUDA_VISIBLE_DEVICES); `work` as WorkerProcess has it.

    Its methods are called from one thread, which has to live as long as it does.
    """

    def __init__(self, work: str | None = None) -> None:
        self._files = _scratch() / "worker"
        self._workers = Workers([WorkerProcess(self._files, work=work)])
        self._locks = GpuLocks()
        self._refused = self._take_gpus()

    def _take_gpus(self) -> str:
        """Why this worker must not measure; empty when it may. Other jobs of the host may be none of the cluster's."""
        if not visible_names():
            return ""
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            gpus = host_gpus(nvml)
        except Exception:  # noqa: BLE001 - a GPU that is declared only, or a driver that does not say: nothing to lock
            return ""
        try:
            self._locks.take(gpus)
        except UsageError as error:
            return str(error)
        return ""

    def hello(self) -> dict[str, Any]:
        """Who and where it is, and why it must not be used, if so."""
        device = os.environ.get(VARIABLE, "")
        facts = {"host": platform.node(), "pid": os.getpid(), "device": device, "identity": identity()}
        return {**facts, "refused": self._refused}

    def run(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Measure the task in `tree`; the answer is a Reply's plain data. A failure is an outcome."""
        task = Task.from_json(tree)
        try:
            done = self._done(task)
        except OSError as error:  # no process, or no room for its files
            done = TaskDone(task, all_failed(task, classify(error), describe(error), 0.0))
        reply = Reply.of(done).to_plain()
        for folder in self._files.glob("task-*"):  # also what a killed process has left
            shutil.rmtree(folder, ignore_errors=True)
        return reply

    def _done(self, task: Task) -> TaskDone:
        self._workers.start(task)
        while True:
            for done in self._workers.wait(WAIT_S):
                return done


def _scratch() -> Path:
    """A folder of this process on this machine's own disk. What workers left behind that were killed goes first."""
    root = Path(tempfile.gettempdir())
    remove_leftovers(root)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{namespace()}-", dir=root))


def namespace() -> str:
    """Within which a process number means something: containers of one host may share its temporary folder."""
    try:
        return "".join(char for char in os.readlink("/proc/self/ns/pid") if char.isdigit())
    except OSError:  # a system without them
        return "0"


def remove_leftovers(root: Path, alive: Callable[[int], bool] | None = None) -> None:
    """Remove the folders in `root` of workers that live no more, as far as their numbers can be asked after here."""
    lives = alive or _alive
    for folder in root.glob(f"{_PREFIX}*-{namespace()}-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
