"""`--launcher local`: every GPU of this host, each with a worker process of its own; without GPUs, so many workers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...instrumentation.visible import VARIABLE, Gpu, NoSuchGpuError, host_gpus
from ..workers.launcher import Workers
from ..workers.process import WorkerProcess
from .gpu_locks import GpuLocks

LoadNvml = Callable[[], Any]


def _load_nvml() -> Any:
    return importlib.import_module("pynvml")


class LocalWorkers(Workers):
    """Worker processes of this host that hold the locks of their GPUs."""

    def __init__(self, workers: Sequence[WorkerProcess], locks: GpuLocks) -> None:
        super().__init__(workers)
        self._locks = locks

    def close(self) -> None:
        """End the workers, then give their GPUs back."""
        super().close()
        self._locks.release()


def local_workers(
    scratch: Path, *, gpus: Sequence[Gpu], count: int | None = None, work: str | None = None,
    locks: GpuLocks | None = None,
) -> LocalWorkers:  # fmt: skip
    """A worker for each of `gpus`, the first `count` of them; where there are none, `count` workers, or one.

    Raises UsageError: for more workers than GPUs, for a GPU that somebody else measures on.
    """
    used = tuple(gpus if count is None else gpus[:count])
    if gpus and count is not None and count > len(gpus):
        has = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        raise UsageError(f"--workers: {count} is too many; this host has {has}, and each worker gets one for itself")
    held = locks or GpuLocks()
    held.take(used)
    environs: list[Mapping[str, str]] = [{VARIABLE: gpu.visible} for gpu in used] or [{}] * (count or 1)
    return LocalWorkers(
        [
            WorkerProcess(scratch / f"worker-{number}", work=work, environ=environ)
            for number, environ in enumerate(environs)
        ],
        held,
    )


def find_gpus(load: LoadNvml = _load_nvml) -> tuple[Gpu, ...]:
    """The GPUs that workers of this process may have. Raises UsageError that says why there is none."""
    try:
        nvml = load()
        nvml.nvmlInit()
        try:
            found = host_gpus(nvml)
        finally:
            nvml.nvmlShutdown()
    except NoSuchGpuError as error:
        raise UsageError(f"--launcher: {error}; mend the variable") from error
    except Exception as error:  # the module or the driver may fail in any way
        told = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"--launcher: the GPUs of this host cannot be counted through NVML: {told}") from error
    if not found:
        raise UsageError(f"--launcher: no GPU is left for workers; {VARIABLE} hides them all")
    return found
