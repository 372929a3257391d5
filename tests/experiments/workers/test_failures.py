"""What an exception was about, and what the end of a process says."""

from __future__ import annotations

import errno
import signal
from pathlib import Path

import pytest
import torch
from stepscope.errors import BrokenInvariant, MeasurementError, UsageError
from stepscope.experiments.workers.failures import classify, classify_exit, describe, oom_kills


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError("Unable to allocate 8. TiB"), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), "oom"),
        (caused(UsageError("the runner does not fit into memory; lower one"), RuntimeError("oops")), "oom"),
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), "capture"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "device"),
        (RuntimeError("CUDA error: device-side assert triggered"), "device"),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx"), "device"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "disk"),
        (caused(UsageError("/x: cannot write here"), OSError(errno.EDQUOT, "Disk quota exceeded")), "disk"),
        (UsageError("/x: cannot write here (No space left on device); choose another"), "disk"),
        (FileNotFoundError(errno.ENOENT, "No such file"), "error"),
        (BrokenInvariant("positions", 3, "off by one"), "invariant"),
        (UsageError("no graph was captured for 8; capture it before the first step"), "invalid"),
        (MeasurementError("nothing was measured on this CUDA error free machine"), "invalid"),
        (ZeroDivisionError("division by zero"), "error"),
    ],
)
def test_an_exception_has_a_class(error: Exception, kind: str) -> None:
    assert classify(error) == kind


def test_a_circle_of_causes_ends() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert classify(one) == "error"


def test_a_domain_error_speaks_for_itself_in_one_line() -> None:
    assert describe(UsageError("a\nb")) == "a b"
    assert describe(ValueError("a\nb")) == "ValueError: a b"


@pytest.mark.parametrize(
    ("returncode", "kills", "kind", "words"),
    [
        (-signal.SIGKILL, 0, "killed", "the worker was killed (SIGKILL)"),
        (-signal.SIGKILL, 1, "host_oom", "the host's memory ran out"),
        (137, 0, "killed", "(SIGKILL)"),
        (-signal.SIGTERM, 0, "killed", "(SIGTERM)"),
        (-signal.SIGSEGV, 0, "crash", "the worker died of SIGSEGV"),
        (139, 0, "crash", "SIGSEGV"),
        (-signal.SIGABRT, 0, "crash", "SIGABRT"),
        (-60, 0, "crash", "signal 60"),
        (1, 0, "exit", "ended with 1 and no result"),
        (0, 0, "exit", "ended with 0 and no result"),
    ],
)
def test_the_end_of_a_process_has_a_class(returncode: int, kills: int, kind: str, words: str) -> None:
    found, told = classify_exit(returncode, kills)
    assert (found, words in told) == (kind, True)


def test_kills_by_the_kernel_are_counted(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    assert oom_kills((events,)) == 0
    events.write_text("low 0\nhigh 3\noom 2\noom_kill 2\n")
    assert oom_kills((tmp_path / "none", events)) == 2
    events.write_bytes(b"\xff\xfe oom_kill x")
    assert oom_kills((events,)) == 0
