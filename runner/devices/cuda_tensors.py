"""Tensors of the `cuda` device, and of the host for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .cuda_memory import make_host_memory, mapped


class CudaTensors:
    """The part of a device that is about memory, on the current GPU. See runner.devices.base.Device."""

    def __init__(self) -> None:
        self.tensor_device = torch.device("cuda", torch.cuda.current_device())
        self._host = make_host_memory()

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed device tensor."""
        return torch.zeros(tuple(shape), dtype=dtype, device=self.tensor_device)

    def host_tensor(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed host tensor; pageable, with the reason kept, once page-locked memory runs out."""
        return self._host.zeros(shape, dtype, pinned=pinned)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Asked of the storage, once for each."""
        return self._host.is_pinned(tensor)

    @property
    def pinned(self) -> bool:
        """See Device; turns False for good once page-locked memory runs out."""
        return self._host.pinned

    @property
    def pinned_reason(self) -> str:
        """See Device."""
        return self._host.reason

    @property
    def maps_host(self) -> bool:
        """Whether page-locked memory is to be had."""
        return self._host.pinned

    def map_host(self, host: torch.Tensor) -> torch.Tensor:
        """The same memory at the address that the GPU has for it."""
        return mapped(host, self.tensor_device)
