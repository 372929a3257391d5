"""Points that measure nothing, for what is around them: named to a worker as `point_runners:no_op`.

    no_op     returns at once, with a small file where a recording would be
    sleep     as no_op, after SLEEP_S seconds (environment STEPSCOPE_SLEEP_S) in which the processor is free
    recording as no_op, with as many files, of as many bytes, as a small recording has
    megabytes as no_op, with MEGABYTES of the seed's byte in place of the small file
    kill_the_actor  as sleep; the point with seed 2 kills the process that its worker is a child of

They say so in every record (`device: no-op`), and stand in no spec: only a program that hands them to a launcher runs
them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from stepscope.experiments.workers.task import Outcome, Task

Interrupted = Callable[[], bool]
DEFAULT_SLEEP_S = 0.05
MEGABYTES = 8
FILES, FILE_BYTES = 11, 8 << 10
"""As the recording of a few steps on `sim` has: 90 kB together."""


def _outcomes(task: Task, scratch: Path, content: bytes, began_s: float) -> list[Outcome]:
    found = []
    for point in task.points:
        folder = scratch / point.key / "recording"
        folder.mkdir(parents=True)
        (folder / "rows.bin").write_bytes(content)
        record = {
            "device": "no-op", "metrics": {"seed": point.spec.workload.seed}, "reasons": {}, "pid": os.getpid(),
            "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", ""), "began_s": began_s, "ended_s": time.time(),
        }  # fmt: skip
        took_s = time.time() - began_s
        found.append(Outcome(point.key, "ok", wall_s=took_s, record=record, folder=folder.parent))
    return found


def no_op(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Nothing."""
    return _outcomes(task, scratch, b"rows", time.time())


def sleep(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Nothing, for a while."""
    began_s = time.time()
    time.sleep(float(os.environ.get("STEPSCOPE_SLEEP_S", DEFAULT_SLEEP_S)))
    return _outcomes(task, scratch, b"rows", began_s)


def recording(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Nothing, in the files of a recording."""
    began_s = time.time()
    found = _outcomes(task, scratch, b"rows", began_s)
    for outcome in found:
        assert outcome.folder is not None
        for number in range(FILES):
            (outcome.folder / "recording" / f"{number}.parquet").write_bytes(bytes(FILE_BYTES))
    return found


def megabytes(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """Nothing, with something to carry."""
    content = bytes([task.points[0].spec.workload.seed % 256]) * (MEGABYTES << 20)
    return _outcomes(task, scratch, content, time.time())


def kill_the_actor(task: Task, scratch: Path, interrupted: Interrupted) -> list[Outcome]:
    """What holds the worker dies under one of the points."""
    if task.points[0].spec.workload.seed == 2:
        os.kill(os.getppid(), signal.SIGKILL)
    return sleep(task, scratch, interrupted)
