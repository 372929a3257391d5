"""One timing job a GPU: a host-wide lock for each, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from ...errors import UsageError
from ...instrumentation.visible import VARIABLE, Gpu


class GpuLocks:
    """Locks on GPUs, held until `release`.

    Any user of the host can take part, so that the files lie where all may write and nobody's are removed. A worker
    does not inherit them: they are the driver's.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir())
        self._held = ExitStack()

    def take(self, gpus: Iterable[Gpu]) -> None:
        """All of `gpus` or none. Raises UsageError that names one that somebody else measures on."""
        with ExitStack() as taken:
            for gpu in gpus:
                descriptor = _open(self._folder / f"stepscope-{gpu.uuid}.lock")
                taken.callback(os.close, descriptor)
                _lock(descriptor, gpu)
            self._held.push(taken.pop_all())

    def release(self) -> None:
        """Let them go."""
        self._held.close()


def _open(path: Path) -> int:
    """Never through a link: in a folder that is everybody's, it would have a file of ours cut short."""
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except PermissionError:  # another user made it, and systems guard such files in a folder that is everybody's
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(f"{path}: cannot be locked ({error.strerror}); remove what is there") from error


def _lock(descriptor: int, gpu: Gpu) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        raise UsageError(
            f"{gpu.uuid}: process {owner} measures on this GPU; wait for it, or leave the GPU out with {VARIABLE}"
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # opened for reading only: the lock holds all the same, without a name on it
        return
