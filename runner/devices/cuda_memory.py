"""Host memory of the `cuda` device: page-locked as far as this machine gives it, else pageable with the reason kept."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import torch

from ...instrumentation.environment import memory_limit_bytes
from .memory import MemoryKind, locked_bytes

LIMIT_SHARE = 2
"""Page-locked memory may take one part in this many of a container's limit: it can't be swapped, and a container that
passes its limit is killed without an error that anybody could catch."""
_OSRELEASE = Path("/proc/sys/kernel/osrelease")


class HostMemory:
    """Hands out host tensors. `pinned` turns False, and `reason` says why, once page-locked memory is not to be had.

    limit_bytes  memory limit of the container, None without one
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.pinned, self.reason = probe_pinned()
        self._budget = None if limit_bytes is None else limit_bytes // LIMIT_SHARE
        self._limit = limit_bytes
        self._in_use = 0  # upper bound of the bytes that are locked and in use; read anew when it reaches the budget
        self._known: WeakKeyDictionary[torch.UntypedStorage, bool] = WeakKeyDictionary()

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed host tensor; page-locked if `pinned` asks for it and the machine gives it."""
        if pinned and self.pinned and self._within_budget(locked_bytes(torch.Size(shape).numel() * dtype.itemsize)):
            try:
                return page_locked(shape, dtype)
            except RuntimeError as error:
                self._refuse(f"page-locked memory ran out: {_first_line(error)}")
        return torch.zeros(tuple(shape), dtype=dtype)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Asked of the storage, once for each: the driver takes about a microsecond."""
        storage = tensor.untyped_storage()  # and not its address, which another tensor may have tomorrow
        known = self._known.get(storage)
        if known is None:
            known = self._known[storage] = tensor.is_pinned()
        return known

    def kind(self, tensor: torch.Tensor) -> MemoryKind:
        """The tensor's memory as the columns src_kind and dst_kind name it."""
        return "pinned" if self.is_pinned(tensor) else "pageable"

    def _within_budget(self, size_bytes: int) -> bool:
        if self._budget is None:
            return True
        if self._in_use + size_bytes > self._budget:
            self._in_use = locked_in_use()
        if self._in_use + size_bytes > self._budget:
            self._refuse(
                f"the container's limit of {self._limit} bytes leaves {self._budget} for page-locked memory:"
                f" {self._in_use} are in use and {size_bytes} were asked for"
            )
            return False
        self._in_use += size_bytes
        return True

    def _refuse(self, reason: str) -> None:
        self.pinned, self.reason = False, reason


class _ArrayInterface:
    """What `torch.as_tensor` asks for the address of; version 2 of the CUDA array interface."""

    def __init__(self, host: torch.Tensor) -> None:
        kind = "|b1" if host.dtype is torch.bool else host.numpy().dtype.str
        self.__cuda_array_interface__ = {
            "shape": tuple(host.shape), "typestr": kind, "data": (host.data_ptr(), False), "version": 2,
            "strides": None,
        }  # fmt: skip
        self.memory = host  # kept as long as the tensor made of this


def mapped(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Page-locked memory as a tensor of `device`. With unified addressing, which every 64-bit system has, its address
    on the device is its address on the host.
    """
    return torch.as_tensor(_ArrayInterface(host), device=device)


def make_host_memory() -> HostMemory:
    """Under this container's limit."""
    return HostMemory(memory_limit_bytes())


def page_locked(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """The one place where memory is page-locked. Raises RuntimeError where the driver refuses."""
    return torch.zeros(tuple(shape), dtype=dtype, pin_memory=True)


def locked_in_use() -> int:
    """Page-locked bytes that tensors hold by now, rounded as the allocator rounds them."""
    return int(torch.cuda.host_memory_stats().get("active_bytes.current", 0))


def probe_pinned() -> tuple[bool, str]:
    """Whether page-locked memory is to be had here, and why not. Tried, because limits show only then."""
    if is_wsl():
        return False, "page-locked memory is not dependable under Windows Subsystem for Linux"
    try:
        page_locked((1024,), torch.uint8)
    except RuntimeError as error:
        return False, f"page-locked memory is not available: {_first_line(error)}"
    return True, ""


def is_wsl(release: Path = _OSRELEASE) -> bool:
    """Windows Subsystem for Linux, whose kernel names its maker in its release."""
    text = release.read_text() if release.exists() else platform.release()
    return "microsoft" in text.lower()


def _first_line(error: RuntimeError) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
