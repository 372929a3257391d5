"""One worker process as its driver sees it: started when there is work, kept warm, replaced when it may be damaged."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .failures import KEEPS_PROCESS, classify, classify_exit, describe, oom_kills
from .frames import Decoder, GarbageError, encode
from .tail import Tail
from .task import Outcome, Task, TaskDone, all_failed, all_interrupted, one_line

START_LIMIT_S = 300.0
"""Until a new process says hello: imports on a loaded machine, or from a network disk, take their time."""
GRACE_S = 10.0
"""After an interrupt, until the process is killed."""


class WorkerProcess:
    """At most one process at a time, and in it at most one task.

    `scratch` is its own folder on this machine, for the files of its points: whoever takes a TaskDone moves them away.
    `environ` is added to this process's environment (CUDA_VISIBLE_DEVICES gives a worker its GPU). Not thread-safe: it
    has to be started from a thread that lives as long as the worker, because the system ends the worker with it.
    """

    def __init__(self, scratch: Path, *, work: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._scratch, self._work, self._environ = scratch, work, dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._key: str | None = None
        self._used = False
        self._facts: Mapping[str, Any] = {}
        self._task: Task | None = None
        self._stillborn: OSError | None = None
        self._reset_streams()

    def _reset_streams(self) -> None:
        self._decoder, self._tail, self._unsent = Decoder(), Tail(), b""
        self._deadline_s: float | None = None
        self._since_s = 0.0
        self._interrupted = False
        self._channel_closed = self._tail_closed = False
        self._kills_before = 0

    @property
    def busy(self) -> bool:
        """Whether a task is with it."""
        return self._task is not None

    def warm_for(self, task: Task) -> bool:
        """Whether `task` would not have to wait for a new process."""
        return self._process is not None and self._key == task.key and not task.fresh

    def streams(self) -> list[int]:
        """Descriptors that become readable when `poll` may have something new."""
        if self._process is None:
            return []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        ends = ((self._process.stdout, self._channel_closed), (self._process.stderr, self._tail_closed))
        return [stream.fileno() for stream, closed in ends if not closed]

    @property
    def due_s(self) -> float | None:
        """time.monotonic() at which `poll` has to look at the process again, come what may."""
        return self._deadline_s

    def start(self, task: Task) -> None:
        """Hand it a task. Where no process can be made, `poll` tells it as the task's failure."""
        assert self._task is None, "the worker is busy"
        if not self.warm_for(task) or (self._process is not None and self._process.poll() is not None):
            self._end()
            try:
                self._spawn()
            except OSError as error:  # the host may have room for one again when the next task comes
                self._task, self._stillborn, self._since_s = task, error, time.monotonic()
                return
        self._task, self._key = task, task.key
        self._tail.clear()
        self._since_s = time.monotonic()
        self._deadline_s = self._since_s + START_LIMIT_S if not self._used else None
        self._used = True
        self._unsent += encode({"task": task.to_json()})
        self._flush()

    def _spawn(self) -> None:
        self._reset_streams()
        self._used, self._facts = False, {}
        self._kills_before = oom_kills()
        self._scratch.mkdir(parents=True, exist_ok=True)
        module = f"{(__package__ or 'stepscope.experiments.workers')}.worker"
        command = [sys.executable, "-m", module, str(os.getpid()), str(self._scratch)]
        self._process = subprocess.Popen(
            [*command, self._work] if self._work else command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env={**os.environ, **self._environ},
            start_new_session=True,  # a Ctrl-C on the terminal is ours to pass on; and a kill takes its children along
        )  # fmt: skip
        assert self._process.stdin is not None
        for descriptor in (*self.streams(), self._process.stdin.fileno()):
            os.set_blocking(descriptor, False)

    def _flush(self) -> None:
        """Send what the pipe takes; a worker that still imports reads later."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(process.stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:  # it has died; `poll` finds out how
            self._unsent = b""

    def poll(self) -> TaskDone | None:
        """What became of its task, if that is over; never waits."""
        if self._stillborn is not None:
            return self._unborn(self._stillborn)
        if self._process is None:
            return None
        returncode = self._process.poll()  # before the messages are read: those of a dead process are then complete
        self._flush()
        self._read_tail()
        try:
            for message in self._messages():
                done = self._take(message)
                if done is not None:
                    return done
            if returncode is None and self._hung_up():
                raise GarbageError("it closed its channel")
        except (GarbageError, KeyError, TypeError, ValueError) as error:
            if self._task is None:
                self._end()
                return None
            return self._failed("garbage", f"the worker sent what is no message: {error}")
        return self._unsaid() if returncode is None else self._died(returncode)

    def _unborn(self, error: OSError) -> TaskDone:
        assert self._task is not None
        self._stillborn = None
        reason = one_line(f"no worker process could be started: {describe(error)}")
        return self._over(all_failed(self._task, classify(error), reason, self.elapsed_s), keep=False)

    def _hung_up(self) -> bool:
        """Whether its channel is closed though it lives; one that is just ending is given the time to."""
        process = self._process
        assert process is not None
        if not self._channel_closed:
            return False
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _unsaid(self) -> TaskDone | None:
        """The task's end by the clock."""
        if self._task is None or self._deadline_s is None or time.monotonic() < self._deadline_s:
            return None
        if self._interrupted:
            return self._given_up()
        if not self._facts:
            return self._failed("timeout", f"the worker did not start within {START_LIMIT_S:g} s")
        assert self._task.limit_s is not None
        return self._failed("timeout", f"took longer than {self._task.limit_s:g} s (--timeout)")

    def _messages(self) -> list[dict[str, Any]]:
        assert self._process is not None
        assert self._process.stdout is not None
        found: list[dict[str, Any]] = []
        while data := _read(self._process.stdout.fileno()):
            found += self._decoder.feed(data)
        self._channel_closed = data is not None
        return found

    def _take(self, message: Mapping[str, Any]) -> TaskDone | None:
        if "hello" in message:
            self._facts = message["hello"]
            return None
        if self._task is None:
            raise GarbageError(f"it sent {sorted(message)} without a task")
        if "begun" in message:
            self._since_s = time.monotonic()
            limit = self._task.limit_s
            if not self._interrupted:
                self._deadline_s = None if limit is None else self._since_s + limit
            return None
        outcomes = tuple(Outcome.from_json(one) for one in message["outcomes"])
        if {one.key for one in outcomes} != {point.key for point in self._task.points}:
            raise GarbageError(f"it told of {[one.key for one in outcomes]} instead of its task's points")
        damaged = any(one.status == "failed" and one.kind not in KEEPS_PROCESS for one in outcomes)
        return self._over(outcomes, keep=not damaged and not self._task.fresh)

    def _died(self, returncode: int) -> TaskDone | None:
        if self._task is None:  # between two tasks: the next one gets a new process
            self._end()
            return None
        if self._interrupted or returncode == 130:
            return self._given_up()
        kind, reason = classify_exit(returncode, oom_kills() - self._kills_before)
        last = self._tail.last_line()
        return self._failed(kind, f"{reason}; its last words: {last}" if last else reason)

    def _failed(self, kind: str, reason: str) -> TaskDone:
        """End the process; every point of the task failed for the same reason, and keeps what the process said last."""
        assert self._task is not None
        self._kill()
        self._read_tail()
        return self._over(all_failed(self._task, kind, one_line(reason), self.elapsed_s), keep=False)

    def _given_up(self) -> TaskDone:
        assert self._task is not None
        return self._over(all_interrupted(self._task), keep=False)

    def _over(self, outcomes: tuple[Outcome, ...], *, keep: bool) -> TaskDone:
        task, said = self._task, self._tail.text()
        assert task is not None
        worker = {**self._facts, **({"output": said} if said else {})}
        self._task, self._deadline_s = None, None
        if not keep:
            self._end()
        return TaskDone(task, outcomes, worker)

    @property
    def elapsed_s(self) -> float:
        """Since the task began."""
        return time.monotonic() - self._since_s

    def interrupt(self) -> None:
        """Ask it to stop at the next step; it is killed when it does not within GRACE_S."""
        if self._process is None or self._interrupted:
            return
        self._interrupted = True
        self._deadline_s = time.monotonic() + GRACE_S
        if self._facts and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        else:
            self._kill()  # it has nothing to put away yet

    def close(self) -> None:
        """End the process, whatever it does, and drop its files."""
        self._task = self._stillborn = None
        self._end()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end(self) -> None:
        if self._process is None:
            return
        self._kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        self._process = None

    def _kill(self) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, and so is its group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _read_tail(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while data := _read(self._process.stderr.fileno()):
            self._tail.add(data)
        self._tail_closed = data is not None


def _read(descriptor: int) -> bytes | None:
    """What is there; empty at the end, None when there is nothing now."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None
