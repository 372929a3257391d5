"""Page-locked host memory: what a modelled device treats as such, and what a request really takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from weakref import WeakSet

import torch

MemoryKind = Literal["pinned", "pageable"]


class PageLocked:
    """Storages that were asked for as pinned memory, for as long as anything (a NumPy view, say) keeps them alive.

    A build of torch without a GPU cannot lock pages, so a modelled device keeps the books itself. Keyed by storage,
    because views, slices and dtype views of a buffer are as pinned as the buffer.
    """

    def __init__(self) -> None:
        self._storages: WeakSet[torch.UntypedStorage] = WeakSet()

    def zeros(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed host tensor that counts as page-locked."""
        tensor = torch.zeros(tuple(shape), dtype=dtype)
        self._storages.add(tensor.untyped_storage())
        return tensor

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage was asked for here."""
        return tensor.untyped_storage() in self._storages

    def kind(self, tensor: torch.Tensor) -> MemoryKind:
        """The tensor's memory as the column src_kind or dst_kind names it."""
        return "pinned" if self.holds(tensor) else "pageable"


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a copy of the tensor moves."""
    return tensor.numel() * tensor.element_size()


def locked_bytes(asked: int) -> int:
    """What torch's caching host allocator locks for a request: the next power of two. An estimate, not a reading.

    129.5 MiB -> 256 MiB (pytorch/pytorch#150517).
    """
    return 1 << (asked - 1).bit_length() if asked > 0 else 0
