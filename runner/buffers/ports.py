"""A buffer as input preparation sees it, whoever stages its copies."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt
import torch


class InputBuffer(Protocol):
    """Host memory that is written each step, and the device tensor that it is copied to."""

    @property
    def gpu(self) -> torch.Tensor:
        """The device tensor of the step's set of buffers."""
        ...

    @property
    def gpus(self) -> tuple[torch.Tensor, ...]:
        """The device tensors of all sets."""
        ...

    def acquire(self) -> npt.NDArray[Any]:
        """The whole host side, free to be written: no copy in flight reads it any more. Contents are stale."""
        ...

    def publish(self, count: int) -> int:
        """Copy the first `count` entries to the device. Returns the copy's correlation; 0 where there is none: of
        no entry, of memory that the device reads in place, and of a copy made later for several buffers.
        """
        ...
