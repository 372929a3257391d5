"""The gate's side of an arm's process: start it, ask it, notice how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...errors import StepscopeError
from .arms import PACKAGE, Program

WORKER = Path(__file__).with_name("worker.py")
_MODULE = f"{PACKAGE}.experiments.gate.worker"
_BOOT = f"""
import importlib.util, sys, {PACKAGE}.experiments
made = importlib.util.spec_from_file_location("{_MODULE}", sys.argv[1])
module = sys.modules["{_MODULE}"] = importlib.util.module_from_spec(made)
made.loader.exec_module(module)
sys.exit(module.main())
"""
"""The worker is this version's; what it imports is the arm's, because its package is."""
POLL_S = 0.02
_GRACE_S = 5.0


class ArmFailed(StepscopeError):
    """An arm's process did not do what it was asked; the message is the reason, `kind` is oom, timeout, killed, ..."""

    exit_code = 3

    def __init__(self, arm: str, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}" if reason else kind)
        self.arm = arm
        self.kind = kind


class ArmProcess:
    """One arm's process. Every request has one reply; `close` ends the process whatever it is doing."""

    def __init__(self, arm: str, program: Program, log: Path) -> None:
        self.arm = arm
        self._log = log
        self._rest = b""
        with log.open("wb") as stderr:
            self._child = subprocess.Popen(
                [program.python, "-c", _BOOT, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=stderr, env=program.environment(), cwd=log.parent,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    def send(self, request: Mapping[str, Any]) -> None:
        """Ask without waiting. ArmFailed when nobody is there any more."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def receive(self, timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """The reply; `meanwhile` is called every `POLL_S`. ArmFailed: a failure, no answer in time, no process."""
        assert self._child.stdout is not None
        descriptor = self._child.stdout.fileno()
        until = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], POLL_S)
            if ready:
                read = os.read(descriptor, 1 << 16)
                if not read:
                    raise self._ended()
                self._rest += read
            else:
                meanwhile()
            if time.monotonic() > until:
                raise ArmFailed(self.arm, "timeout", f"no answer within {timeout_s:g} s")
        line, _, self._rest = self._rest.partition(b"\n")
        return self._whole(line)

    def ask(
        self, request: Mapping[str, Any], timeout_s: float, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Send and receive."""
        self.send(request)
        return self.receive(timeout_s, meanwhile)

    def close(self) -> None:
        """End the process: it may finish what it does for a moment, then it is killed. A second call does nothing."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        if self._child.stdout.closed:
            return
        with contextlib.suppress(ArmFailed):
            self.send({"do": "end"})
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()

    def _whole(self, line: bytes) -> dict[str, Any]:
        try:
            reply = json.loads(line)
            good = reply["ok"]
        except (ValueError, TypeError, KeyError) as error:
            raise ArmFailed(self.arm, "garbage", "its answer is not of this protocol") from error
        if not good:
            raise ArmFailed(self.arm, str(reply.get("kind")), str(reply.get("reason")))
        return dict(reply)

    def _ended(self) -> ArmFailed:
        """What the end of the process means, with the last line that it said."""
        try:
            code = self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return ArmFailed(self.arm, "garbage", "it closed its output and runs on")
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1].strip() if lines else "it said nothing"
        if code < 0:
            return ArmFailed(self.arm, "killed", f"by signal {-code}; {said}")
        return ArmFailed(self.arm, "ended", f"with exit code {code}; {said}")
