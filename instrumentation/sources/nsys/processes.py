"""Processes and devices of an nsys export.

globalPid and globalTid pack (hardware 8 bits, VM 8, pid 24, thread 24). The whole of it above the thread names a
process: pids of two containers may repeat. Correlation ids count per process.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..arrays import ABSENT, LongArray, distinct, grouped
from ..trace import CapturedProcess
from .database import Database

_THREAD_BITS = 24
_MASK = (1 << _THREAD_BITS) - 1


class Processes:
    """Collects the processes that rows name and hands out their places."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}

    def of(self, global_ids: LongArray) -> LongArray:
        """Place of the process of each globalPid or globalTid; ABSENT stays ABSENT."""
        known, row = distinct(np.where(global_ids == ABSENT, ABSENT, global_ids >> _THREAD_BITS))
        places = [
            ABSENT if key == ABSENT else self._places.setdefault(key, len(self._places)) for key in known.tolist()
        ]
        return np.array(places, dtype=np.int64)[row]

    def settle(self, places: LongArray) -> LongArray:
        """Rows without a process belong to the only one there is; with none or several, to one of their own."""
        lost = places == ABSENT
        if not lost.any():
            return places
        alone = 0 if len(self._places) == 1 else self._places.setdefault(ABSENT, len(self._places))
        return np.where(lost, alone, places)

    def listed(self) -> tuple[CapturedProcess, ...]:
        """All processes, by place. One whose pid another machine or container has too gets its number as host."""
        pids = Counter(key & _MASK for key in self._places if key != ABSENT)
        return tuple(
            CapturedProcess()
            if key == ABSENT
            else CapturedProcess(key & _MASK, host=f"vm {key >> _THREAD_BITS}" if pids[key & _MASK] > 1 else None)
            for key in self._places
        )


def threads(global_tids: LongArray) -> LongArray:
    """The system's thread number of each globalTid."""
    return np.where(global_tids == ABSENT, ABSENT, global_tids & _MASK)


class Devices:
    """Names devices. A device id counts within a process: two processes may call different GPUs 0.

    TARGET_INFO_CUDA_DEVICE tells which GPU a process means; where it says that one id stands for several, the GPU's
    own number takes its place. In a container a process may have another pid there than in its globalPid: PROCESSES has
    both. Of a process that it does not tell, nobody knows which of them it means: its device has a name of its own.
    """

    def __init__(self, database: Database) -> None:
        rows = database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
        self._called = {
            whole >> _THREAD_BITS & _MASK: pid
            for whole, pid in database.rows("PROCESSES", "globalPid", "pid")
            if isinstance(whole, int)
        }
        self._gpus: dict[tuple[object, object], object] = {(pid, ordinal): gpu for pid, ordinal, gpu in rows}
        meant: dict[object, set[object]] = {}
        for (_, ordinal), gpu in self._gpus.items():
            meant.setdefault(ordinal, set()).add(gpu)
        self._ambiguous = any(len(gpus) > 1 for gpus in meant.values())
        self._places: dict[str, int] = {}

    def of(self, device: LongArray, process: LongArray, pids: tuple[int | None, ...]) -> LongArray:
        """Place of the device of each row."""
        pair, first = grouped(process, device)
        names = [
            self._name(ordinal, pids[place])
            for place, ordinal in zip(process[first].tolist(), device[first].tolist(), strict=True)
        ]
        places = [self._places.setdefault(name, len(self._places)) for name in names]
        return np.array(places, dtype=np.int64)[pair]

    def _name(self, ordinal: int, pid: int | None) -> str:
        if ordinal == ABSENT:
            return "unknown"
        if not self._ambiguous:
            return str(ordinal)
        if pid is None:
            return "unknown"
        gpu = self._gpus.get((pid, ordinal), self._gpus.get((self._called.get(pid), ordinal)))
        return f"{ordinal} of process {pid}" if gpu is None else f"gpu{gpu}"

    def listed(self) -> tuple[str, ...]:
        """All devices, by place."""
        return tuple(self._places)
