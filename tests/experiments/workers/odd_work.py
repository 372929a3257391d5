"""Work for worker processes under test: what a point does stands in its seed's place in the table below."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.experiments.workers.failures import classify, describe
from stepscope.experiments.workers.task import Outcome, Task, all_failed, all_interrupted

Interrupted = Callable[[], bool]


def _ok(folder: Path) -> None:
    (folder / "recording").mkdir(parents=True)
    (folder / "recording" / "rows.txt").write_text("rows")


def _raise(error: BaseException) -> Callable[[Path], None]:
    def raiser(folder: Path) -> None:
        raise error

    return raiser


def _segfault(folder: Path) -> None:
    ctypes.string_at(0)


def _kill(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(folder: Path) -> None:
    time.sleep(600)


def _scream(folder: Path) -> None:
    """To every stream that a library could find."""
    sys.stdout.write("SSW1 garbage on stdout\n")
    sys.stdout.flush()
    os.write(1, b"\0\1\2 garbage on descriptor 1\n")
    _ok(folder)


def _poison_channel(folder: Path) -> None:
    """To every descriptor there is: the channel is one of them."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"not a message at all")
        except OSError:
            continue
    time.sleep(600)


DEEDS: dict[str, Callable[[Path], None]] = {
    "ok": _ok,
    "segfault": _segfault,
    "kill": _kill,
    "hang": _hang,
    "scream": _scream,
    "poison": _poison_channel,
    "exit": lambda folder: os._exit(7),
    "oom": _raise(MemoryError("Unable to allocate 8. TiB")),
    "invalid": _raise(UsageError("runner.block_size: 0 is too small")),
}


def work(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Do what STEPSCOPE_DEEDS (JSON: seed of the point -> deed) says of the task's first point."""
    deeds = json.loads(os.environ.get("STEPSCOPE_DEEDS", "{}"))
    try:
        found = []
        for point in task.points:
            folder = scratch / point.key
            folder.mkdir(parents=True)
            DEEDS[deeds.get(str(point.spec.workload.seed), "ok")](folder)
            found.append(Outcome(point.key, "ok", wall_s=0.25, record={"pid": os.getpid()}, folder=folder))
    except Exception as error:  # noqa: BLE001 - as the real work does
        return list(all_failed(task, classify(error), describe(error), 0.5))
    return list(all_interrupted(task)) if interrupted() else found


def sleep_until_interrupted(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Steps of a millisecond, as long as nobody interrupts."""
    while not interrupted():
        time.sleep(0.001)
    return list(all_interrupted(task))


def brief(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Twenty milliseconds a point."""
    time.sleep(0.02)
    return work(task, scratch, interrupted)
