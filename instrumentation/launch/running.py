"""Running a profiler to its end, and ending it gently: workers first, because one that is killed takes its part of the
capture along, then the profiler."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError

GRACE_S = 60.0
_PROFILERS = ("nsys", "nsight", "QuadD", "Qdstrm")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. `code` is the profiler's, which is the program's own where all went well."""

    code: int
    interrupted: bool = False


def run_gently(command: Sequence[str], environment: Mapping[str, str], *, grace_s: float = GRACE_S) -> Ended:
    """Run `command`; what it prints goes to stderr. Ctrl-C ends its workers, then the profiler, and waits for both.

    Raises UsageError for a program that cannot be run.
    """
    try:
        process = subprocess.Popen(
            list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be run ({error.strerror}); check the path") from error
    with process:
        try:
            return Ended(process.wait())
        except KeyboardInterrupt:
            return Ended(_end(process, grace_s), interrupted=True)
        except BaseException:
            process.terminate()
            raise


def _end(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """Interrupt the workers, then the profiler, then terminate it; each has `grace_s` to end by itself."""
    steps: tuple[Callable[[], None], ...] = (
        lambda: _interrupt(profiled(process.pid)),
        lambda: process.send_signal(signal.SIGINT),
        process.terminate,
    )
    for step in steps:
        step()
        try:
            return process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()


def profiled(pid: int) -> list[int]:
    """Descendants of the profiler that are not the profiler's own, the innermost first; none where /proc is not."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        try:
            text = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        own = int(entry.parent.name)
        names[own], parents[own] = name, int(rest.split()[1])
    found, wanted = [], {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        found += [child for child in sorted(wanted) if not names[child].startswith(_PROFILERS)]
    return found[::-1]


def _interrupt(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.kill(pid, signal.SIGINT)
