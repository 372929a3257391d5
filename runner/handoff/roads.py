"""How a token gets from the step before into this step's input ids without passing through the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from ..buffers.ports import InputBuffer
from ..devices.base import Device, Work
from ..devices.costs import MOVE
from .plan import TokensWanted

HANDOFF = "token_handoff"
"""Name of the device operation."""


class HandoffRoad(Protocol):
    """One way to do it. `prepare` is called while the step's copies to the device are enqueued, `apply` behind the last
    of them.
    """

    def prepare(self, wanted: TokensWanted) -> None:
        """Enqueue what `apply` needs on the device."""
        ...

    def apply(self, wanted: TokensWanted, sampled: torch.Tensor, input_ids: torch.Tensor) -> None:
        """Fill in the wanted `input_ids` [tokens] from the step before, whose tokens are `sampled` [rows, width]."""
        ...


class SliceRoad:
    """One copy on the device, for steps whose rows are those of the step before in the same order (`in_place`)."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def prepare(self, wanted: TokensWanted) -> None:
        """Nothing has to be sent."""

    def apply(self, wanted: TokensWanted, sampled: torch.Tensor, input_ids: torch.Tensor) -> None:
        """Copy the first rows."""
        count = wanted.count
        source, target = sampled[:count, 0], input_ids[:count]
        self._device.launch(HANDOFF, lambda: target.copy_(source), _work(count))


class ScatterRoad:
    """One kernel that scatters tokens by a map of (place in the input ids, row of the step before). The map is copied
    to the device with the step's other inputs.
    """

    def __init__(self, device: Device, pairs: InputBuffer) -> None:
        self._device = device
        self._pairs = pairs  # [2 * rows] int32: places, then rows
        self._scatter = _kernel(device)
        self._copied = 0

    def prepare(self, wanted: TokensWanted) -> None:
        """Send the map."""
        count, pairs = wanted.count, self._pairs.acquire()
        pairs[:count] = wanted.places
        pairs[count : 2 * count] = wanted.rows
        self._copied = self._pairs.publish(2 * count)

    def apply(self, wanted: TokensWanted, sampled: torch.Tensor, input_ids: torch.Tensor) -> None:
        """Launch the kernel."""
        count, pairs = wanted.count, self._pairs.gpu
        self._device.launch(
            HANDOFF,
            lambda: self._scatter(pairs, sampled, input_ids, count),
            _work(count),
            consumes=(self._copied,),
        )


def scatter_on_host(pairs: torch.Tensor, sampled: torch.Tensor, input_ids: torch.Tensor, count: int) -> None:
    """What the kernel does, on device tensors that live in host memory."""
    places, rows = pairs[:count].numpy(), pairs[count : 2 * count].numpy()
    ids = input_ids.numpy()
    ids[places] = np.take(sampled.numpy()[:, 0], rows)


def _work(count: int) -> Work:
    return Work(MOVE, tokens=count, rows=count, moved_bytes=4 * count)


def _kernel(device: Device) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], None]:
    if device.tensor_device.type == "cuda":
        from .scatter_kernel import scatter_tokens

        return scatter_tokens
    return scatter_on_host
