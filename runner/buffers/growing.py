"""A staged buffer for what has no useful upper bound: block-id differences are few in most steps and many in some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch

from ..devices.base import Device, StreamName
from .staged import StagedBuffer


def grown_capacity(count: int) -> int:
    """The next power of two >= `count`."""
    return 1 << (count - 1).bit_length()


class GrowingBuffer:
    """A StagedBuffer that is replaced by a larger one when a step needs more, and never by a smaller one.

    make    a StagedBuffer of a given capacity, its copies on `stream`
    Addresses change with the size, so no captured graph may read `gpu`. Old buffers are kept: a copy or a kernel in
    flight may still use them, and together they are no larger than the last one.
    """

    def __init__(self, device: Device, stream: StreamName, make: Callable[[int], StagedBuffer], least: int) -> None:
        self._device = device
        self._stream = stream
        self._make = make
        self._buffer = make(grown_capacity(least))
        self._outgrown: list[StagedBuffer] = []
        self.capacity = grown_capacity(least)

    @property
    def gpu(self) -> torch.Tensor:
        """The device tensor of the step's set, good until the next `acquire`."""
        return self._buffer.gpu

    def acquire(self, count: int) -> npt.NDArray[Any]:
        """Host memory for at least `count` elements, safe to write."""
        if count > self.capacity:
            self.capacity = grown_capacity(count)
            self._outgrown.append(self._buffer)
            self._buffer = self._make(self.capacity)
            if self._stream != "compute":  # new device memory is zeroed there: no copy may come before
                self._device.stream_wait(self._stream, self._device.record("compute"))
        return self._buffer.acquire()

    def publish(self, count: int) -> int:
        """Copy the first `count` elements to `gpu`; all of them are news. Returns the copy's correlation."""
        return self._buffer.publish(count, changed_bytes=count * self.gpu.element_size())

    def flush(self) -> None:
        """Write the `buffers` rows that still wait for a verdict; see Publisher."""
        self._buffer.flush()
