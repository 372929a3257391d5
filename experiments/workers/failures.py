"""Classes of failures: what an exception was about, and what the end of a process says of its death.

oom        memory of the device or of the process ran out
host_oom   the kernel killed the process because the host's memory ran out
timeout    it took longer than it was allowed to
killed     somebody killed the process
crash      the process died of a signal (SIGSEGV, SIGABRT, ...)
exit       the process ended by itself, without a result
device     the device reported an error; its context is lost
capture    a CUDA graph could not be captured
invalid    what the point asks for cannot be built or measured
invariant  a check of the runner failed
disk       no room, or no permission, where results are written
garbage    the process sent what is no message
mixed      it was measured with another engine than the rest
lost       the node of the worker went away
error      anything else
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

from ...errors import BrokenInvariant, StepscopeError

KEEPS_PROCESS = frozenset({"invalid", "invariant"})
"""Kinds after which the process is as good as before; after any other it is replaced."""
STOPS_SWEEP = frozenset({"disk"})
"""Kinds that every further point would share."""

_OOM_TEXTS = (
    "out of memory", "can't allocate memory", "storage size calculation overflowed", "cuda_error_out_of_memory",
    "cublas_status_alloc_failed", "does not fit into memory",
)  # fmt: skip
_CAPTURE_TEXTS = ("stream is capturing", "streamcapture", "stream capture", "during capture", "captures_underway")
_DEVICE_TEXTS = (
    "cuda error", "cudaerror", "cuda_error", "illegal memory access", "device-side assert", "cublas_status",
    "cudnn_status", "ncclerror",
)  # fmt: skip
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_DISK_TEXTS = ("no space left on device", "disk quota exceeded", "read-only file system")
_OURS = (("oom", _OOM_TEXTS), ("disk", _DISK_TEXTS))
_TEXTS = (*_OURS, ("capture", _CAPTURE_TEXTS), ("device", _DEVICE_TEXTS))
_CGROUP_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def classify(error: BaseException) -> str:
    """The kind of what was raised; what caused it is looked at too, because a domain error may wrap the fact."""
    chain = list(_chain(error))
    for one in chain:
        kind = _fact(one)
        if kind:
            return kind
    if isinstance(error, BrokenInvariant):
        return "invariant"
    return "invalid" if isinstance(error, StepscopeError) else "error"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def _fact(error: BaseException) -> str:
    """Memory first: a driver tells of it in the words of a device error. Empty where `error` is none of these."""
    told = str(error).lower()
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return "disk"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    ours = isinstance(error, StepscopeError)  # our own words may speak of captures and devices without a fault in them
    return next((kind for kind, texts in (_OURS if ours else _TEXTS) if any(text in told for text in texts)), "")


def describe(error: BaseException) -> str:
    """One line for a report: a domain error speaks for itself, any other is named."""
    text = " ".join(str(error).split())
    return text if isinstance(error, StepscopeError) else f"{type(error).__name__}: {text}"


def classify_exit(returncode: int, oom_kills: int) -> tuple[str, str]:
    """(kind, what to say) of a process that ended without a result; `oom_kills`: by the kernel, since it started."""
    number = -returncode if returncode < 0 else returncode - 128 if returncode > 128 else 0
    if number == signal.SIGKILL:
        if oom_kills:
            return "host_oom", "the kernel killed the worker because the host's memory ran out"
        return "killed", "the worker was killed (SIGKILL)"
    if number:
        name = _signal_name(number)
        ended_by_hand = number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        if ended_by_hand:
            return "killed", f"the worker was killed ({name})"
        return "crash", f"the worker died of {name}"
    return "exit", f"the worker ended with {returncode} and no result"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def oom_kills(paths: tuple[Path, ...] = _CGROUP_EVENTS) -> int:
    """Processes of this container that the kernel has killed for want of memory so far; 0 where it does not say."""
    for path in paths:
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                return int(count)
    return 0
