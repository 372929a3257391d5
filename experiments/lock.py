"""One driver at a time for a sweep's folder, also where the last one was killed, and also on a shared disk.

The lock is a file that names its owner. Its owner is taken for dead
 - on this machine: when no process has its number, or one that started at another time;
 - elsewhere: when the beat in the file, which an owner moves every few seconds, has stood still while we watched.
No clocks are compared, so one that goes back, or differs between machines, changes nothing.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..errors import UsageError
from .files import write_atomically

LOCK_FILE = "sweep.lock"
BEAT_EVERY_S = 2.0
WATCH_S = 15.0
"""How long a beat has to stand still."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lock. `started` is the process's start as its kernel counts it, `boot` that kernel's run."""

    token: str
    pid: int
    host: str
    boot: str
    started: str
    beat: int = 0


class SweepLock:
    """Hold the lock of a folder within the block. Raises UsageError when somebody else does."""

    def __init__(
        self, root: Path, *, sleep: Callable[[float], None] = time.sleep, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = root / LOCK_FILE
        self._sleep, self._now_s = sleep, now_s
        self._me = Owner(uuid.uuid4().hex, os.getpid(), platform.node(), _boot(), _started(os.getpid()))
        self._beaten_s = 0.0

    def __enter__(self) -> SweepLock:
        while not self._create():
            self._remove_stale()
        self._beaten_s = self._now_s()
        return self

    def __exit__(self, *_: object) -> None:
        owner = _read(self._path)
        if owner is not None and owner.token == self._me.token:
            self._path.unlink(missing_ok=True)

    def beat(self) -> None:
        """Call often; writes every few seconds. Raises UsageError when the lock was taken over meanwhile."""
        if self._now_s() - self._beaten_s < BEAT_EVERY_S:
            return
        self.check()
        self._me = replace(self._me, beat=self._me.beat + 1)
        self._beaten_s = self._now_s()
        try:
            write_atomically(self._path, _text(self._me))
        except OSError as error:
            raise self._unwritten(error) from error

    def check(self) -> None:
        """Raises UsageError when the lock is not ours any more: we were held up, and somebody took us for dead."""
        owner = _read(self._path)
        if owner is None or owner.token != self._me.token:
            raise UsageError(f"{self._path}: was taken over by {_name(owner)}; this sweep goes on there")

    def _create(self) -> bool:
        """Whether the lock is ours now: a whole file appears under its name, or another one was there first."""
        draft = self._path.with_name(f".{LOCK_FILE}.{self._me.token}")
        try:
            draft.write_text(_text(self._me), encoding="utf-8")
            return self._appears(draft)
        except OSError as error:
            raise self._unwritten(error) from error
        finally:
            draft.unlink(missing_ok=True)

    def _appears(self, draft: Path) -> bool:
        """Whether the content of `draft` stands under the lock's name now; False where a lock is there already."""
        try:
            os.link(draft, self._path)
        except FileExistsError:
            return False
        except OSError:  # no hard links here
            return self._appears_plainly(draft.read_text(encoding="utf-8"))
        return True

    def _appears_plainly(self, text: str) -> bool:
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return True

    def _unwritten(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self._path}: cannot be written ({error.strerror or error}); points are kept: make room, then go on with:"
            f" perf sweep --resume --out {shlex.quote(str(self._path.parent))}"
        )

    def _remove_stale(self) -> None:
        """Drop the lock of an owner that is dead. Raises UsageError for one that is not."""
        if self._path.is_dir() and not self._path.is_symlink():
            raise UsageError(f"{self._path}: is a folder where a lock belongs; remove it, or choose another --out")
        owner = _read(self._path)
        if self._alive(owner):
            raise UsageError(
                f"{self._path}: {_name(owner)} is working on this sweep; wait for it to end, or choose another --out"
            )
        claimed = self._path.with_name(f".{LOCK_FILE}.stale.{self._me.token}")
        try:
            self._path.rename(claimed)  # of two that find it stale, one gets it
        except FileNotFoundError:
            return
        taken = _read(claimed)
        if taken != owner and self._alive(taken):  # somebody was faster, and what we got is already theirs
            self._appears(claimed)  # unless a third one is there by now: then theirs is lost, which they notice
        claimed.unlink(missing_ok=True)

    def _alive(self, owner: Owner | None) -> bool:
        if owner is not None and owner.host == self._me.host and owner.boot == self._me.boot:
            return bool(owner.started) and _started(owner.pid) == owner.started
        return self._moves(owner)

    def _moves(self, owner: Owner | None) -> bool:
        """Whether an owner elsewhere, or one that was just being written, changes the file while we watch."""
        until_s = self._now_s() + (WATCH_S if owner is not None else BEAT_EVERY_S)
        while self._now_s() < until_s:
            self._sleep(0.5)
            found = _read(self._path)
            if found != owner:
                return found is not None
        return False


def _text(owner: Owner) -> str:
    return json.dumps(asdict(owner)) + "\n"


def _read(path: Path) -> Owner | None:
    """Who the file names; None where there is none, or a damaged one."""
    try:
        return Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _name(owner: Owner | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"


def _boot() -> str:
    """Within which a process number means something: a run of the kernel, and a namespace of numbers in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process started, in its kernel's count; empty where there is no such process.

    A process that died and was not fetched by its parent (a zombie) is none.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else _exists(pid)
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def _exists(pid: int) -> str:
    """Where there is no /proc: whether anybody has that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "exists"
    return "exists"
