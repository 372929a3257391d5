"""The fingerprint of the machine that a recording was made on. It holds no user name, no host name and no path."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from .. import __version__
from .recording.registry import Value

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_NO_LIMIT_BYTES = 1 << 60  # cgroup v1 writes a number of this order where there is no limit
_PACKAGES = ("torch", "triton", "numpy", "pandas")


def fingerprint(
    gpu: Mapping[str, Value] | None = None, *, pinned: bool | None = None, pinned_reason: str | None = None
) -> dict[str, Value]:
    """The environment for `RecordingMeta`; null where the machine does not say.

    `gpu` is what a TelemetrySampler tells; `pinned` and `pinned_reason` are the device's. Versions are read from the
    installed packages' metadata, so nothing heavy is imported.
    """
    return {
        "stepscope": __version__,
        **{name: _version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine() or None,
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": _usable_cpus(),
        "memory_bytes": _memory_bytes(),
        "memory_limit_bytes": memory_limit_bytes(),
        "pin_memory": pinned,
        "pin_memory_reason": pinned_reason or None,
        **(gpu or {}),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    """The model's name as Linux tells it; platform.processor() is empty or an architecture on most systems."""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip() or None
    return platform.processor() or None


def _usable_cpus() -> int | None:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def memory_limit_bytes(paths: tuple[Path, ...] = _CGROUP_LIMITS) -> int | None:
    """The container's memory limit from the first cgroup file that exists; None where there is none."""
    for path in paths:
        text = _read(path).strip()
        if text.isdigit():
            limit = int(text)
            return limit if limit < _NO_LIMIT_BYTES else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
