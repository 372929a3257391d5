"""Memory of a modelled device: pages that are not taken before they are written, and what counts as page-locked."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Literal
from weakref import WeakSet

import numpy as np
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


def lazy_zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A zeroed tensor whose pages are taken as they are first written: a KV cache is large, and most of it never is.

    (torch.zeros writes all of it.) Raises MemoryError.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes > sys.maxsize:
        raise MemoryError(f"unable to allocate {num_bytes} bytes")
    return torch.from_numpy(np.zeros(num_bytes, dtype=np.uint8)).view(dtype).view(tuple(shape))


def locked_bytes(asked: int) -> int:
    """What torch's caching host allocator locks for a request: the next power of two. An estimate, not a reading.

    129.5 MiB -> 256 MiB (pytorch/pytorch#150517).
    """
    return 1 << (asked - 1).bit_length() if asked > 0 else 0
