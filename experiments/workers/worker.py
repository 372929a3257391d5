"""The process of a worker: takes tasks from its driver, one at a time, and sends back how their points ended.

    python -m stepscope.experiments.workers.worker DRIVER_PID SCRATCH [MODULE:FUNCTION]

It talks over the stdin and stdout that it was started with. Both are put out of reach of everything else before
anything is imported: what libraries print goes to stderr. It never outlives its driver.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from .frames import Decoder, encode

MEASURE = "stepscope.experiments.workers.measuring:measure_task"
"""The work of a worker that was given no other."""
_PR_SET_PDEATHSIG = 1


class Channel:
    """The two ends towards the driver."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._in, self._out = incoming, outgoing
        self._decoder = Decoder()
        self._messages: list[dict[str, Any]] = []

    @classmethod
    def take(cls) -> Channel:
        """Stdin and stdout, moved to descriptors that nobody else knows."""
        incoming, outgoing = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(open(incoming, "rb", buffering=0), open(outgoing, "wb", buffering=0))

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the driver has hung up."""
        while not self._messages:
            data = self._in.read(1 << 16)
            if not data:
                return None
            self._messages = self._decoder.feed(data)
        return self._messages.pop(0)

    def send(self, message: dict[str, Any]) -> None:
        """One message, all of it."""
        rest = memoryview(encode(message))
        while rest:
            rest = rest[self._out.write(rest) or 0 :]


def die_with(driver: int) -> None:
    """End when the driver's process ends, in whatever way; at once if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if orphaned(driver):
        os._exit(1)


def orphaned(driver: int) -> bool:
    """Whether the driver is gone."""
    return os.getppid() != driver


Work = Callable[..., Any]


def load(work: str) -> tuple[Work, Callable[[], AbstractContextManager[None]]]:
    """The function that `module:function` names, and what its module keeps between tasks (`resident`), if anything."""
    module_name, _, name = work.partition(":")
    module = importlib.import_module(module_name)
    found = getattr(module, name)
    assert callable(found), f"{work} cannot be called"
    return found, getattr(module, "resident", nullcontext)


def main(argv: Sequence[str]) -> int:
    """0 when the driver hung up, 130 after Ctrl-C."""
    driver, scratch, work_name = int(argv[0]), Path(argv[1]), argv[2] if len(argv) > 2 else MEASURE
    channel = Channel.take()
    die_with(driver)
    faulthandler.enable()
    if work_name == MEASURE and __package__:  # under whatever name the package was imported
        work_name = f"{__package__}.measuring:measure_task"
    work, resident = load(work_name)
    from ..identity import identity

    facts = {"host": platform.node(), "pid": os.getpid(), "device": os.environ.get("CUDA_VISIBLE_DEVICES", "")}
    channel.send({"hello": {**facts, "identity": identity()}})
    with resident():
        return _serve(channel, work, scratch, driver)


def _serve(channel: Channel, work: Work, scratch: Path, driver: int) -> int:
    from ..interrupt import Interrupt
    from .task import Task

    with Interrupt() as interrupt:
        while (message := channel.receive()) is not None:
            task = Task.from_json(message["task"])
            channel.send({"begun": task.number})
            started = time.perf_counter()
            outcomes = work(task, scratch / f"task-{task.number}", lambda: interrupt.requested or orphaned(driver))
            wall_s = time.perf_counter() - started
            channel.send({"done": task.number, "outcomes": [one.to_json() for one in outcomes], "wall_s": wall_s})
            if interrupt.requested:
                return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
