"""Where the copies of one staged buffer go: its device tensors, and the views that a copy needs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..devices.base import Device
from .road import Road
from .slots import Slot

_MAX_VIEWS = 512


class Destination:
    """Device tensors of fixed address, one a set, with a landing buffer before each where the road has one.

    Views are kept by set, slot and length: slicing two tensors costs more than the rest of a small publish.
    """

    def __init__(self, device: Device, gpus: Sequence[torch.Tensor], road: Road) -> None:
        assert len(gpus) == road.sets.count, "one device tensor a set"
        self.sets = road.sets
        self.gpus = tuple(gpus)
        self._landing = road.landing
        self.lands = road.landing is not None
        """Whether `sent` has something to do."""
        self._targets = self.gpus
        if road.landing is not None:
            self._targets = tuple(device.empty(gpu.shape, gpu.dtype) for gpu in gpus)
        self._made: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def gpu(self) -> torch.Tensor:
        """The device tensor of the step's set."""
        return self.gpus[self.sets.current]

    def views(self, slot: Slot, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(target, source) of a copy of the first `count` entries; not kept for memory that is used once."""
        current = self.sets.current
        if slot.index is None:
            return self._targets[current][:count], slot.tensor[:count]
        key = (current, slot.index, count)
        views = self._made.get(key)
        if views is None:
            if len(self._made) >= _MAX_VIEWS:
                self._made.clear()
            views = self._made[key] = (self._targets[current][:count], slot.tensor[:count])
        return views

    def sent(self, count: int, copy: int) -> None:
        """The copy of the first `count` entries was enqueued; 0 stands for an empty one."""
        if self._landing is not None and copy:
            current = self.sets.current
            self._landing.arrived(self.gpus[current][:count], self._targets[current][:count], copy)


def fresh_tensors(device: Device, shape: Sequence[int], dtype: torch.dtype, road: Road) -> tuple[torch.Tensor, ...]:
    """Zeroed device tensors, one a set."""
    return tuple(device.empty(shape, dtype) for _ in range(road.sets.count))
