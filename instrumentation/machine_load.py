"""What Linux says of the processor while something runs: counters read before and after, and their differences.

Null where the system does not say (another system, a container that hides /proc); nothing here raises.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CPUFREQ = "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"
_STEAL = 7
"""Place of `steal` in the line `cpu` of /proc/stat; user, nice, system, idle, iowait, irq, softirq come before it."""


@dataclass(frozen=True, slots=True)
class LoadReading:
    """Counters at one moment. Ticks are the system's; `waited_ns`: the process was ready and had no core."""

    time_ns: int
    steal_ticks: int | None
    all_ticks: int | None
    waited_ns: int | None
    migrations: int | None
    involuntary: int | None
    cpu_mhz: float | None
    load: float | None


@dataclass(frozen=True, slots=True)
class LoadChange:
    """What happened between two readings; shares are of the time between them."""

    steal_share: float | None
    wait_share: float | None
    migrations: int | None
    involuntary: int | None
    cpu_mhz: float | None
    load: float | None


def read_load(pid: int, proc: Path = _PROC, sysfs: Path = Path("/sys")) -> LoadReading:
    """The counters of the machine and of the main thread of process `pid`."""
    ticks = _ticks(proc)
    return LoadReading(
        time.monotonic_ns(), ticks[_STEAL] if len(ticks) > _STEAL else None, sum(ticks[: _STEAL + 1]) or None,
        _waited(proc, pid), _field(proc / str(pid) / "sched", "se.nr_migrations"),
        _field(proc / str(pid) / "status", "nonvoluntary_ctxt_switches"), _mhz(proc, sysfs), _load(proc),
    )  # fmt: skip


def change(before: LoadReading, after: LoadReading) -> LoadChange:
    """The differences; null where either reading lacks a counter."""
    ticks = _difference(before.all_ticks, after.all_ticks)
    steal = _difference(before.steal_ticks, after.steal_ticks)
    waited = _difference(before.waited_ns, after.waited_ns)
    elapsed = after.time_ns - before.time_ns
    return LoadChange(
        steal / ticks if steal is not None and ticks else None,
        waited / elapsed if waited is not None and elapsed > 0 else None,
        _difference(before.migrations, after.migrations), _difference(before.involuntary, after.involuntary),
        after.cpu_mhz, after.load,
    )  # fmt: skip


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _ticks(proc: Path) -> list[int]:
    first = _text(proc / "stat").partition("\n")[0].split()
    return [int(word) for word in first[1:]] if first[:1] == ["cpu"] and all(w.isdigit() for w in first[1:]) else []


def _waited(proc: Path, pid: int) -> int | None:
    words = _text(proc / str(pid) / "schedstat").split()
    return int(words[1]) if len(words) >= 2 and words[1].isdigit() else None


def _field(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name and value.strip().isdigit():
            return int(value)
    return None


def _mhz(proc: Path, sysfs: Path) -> float | None:
    """Mean clock of the cores: what the governor says, else what /proc/cpuinfo says."""
    known = [int(text) / 1000 for path in sysfs.glob(_CPUFREQ) if (text := _text(path).strip()).isdigit()]
    if not known:
        lines = (line.partition(":") for line in _text(proc / "cpuinfo").splitlines())
        known = [float(value) for key, _, value in lines if key.strip() == "cpu MHz" and _is_number(value)]
    return sum(known) / len(known) if known else None


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()


def _load(proc: Path) -> float | None:
    word = _text(proc / "loadavg").partition(" ")[0]
    return float(word) if _is_number(word) else None
