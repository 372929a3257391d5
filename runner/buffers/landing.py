"""Landing buffers: where copies arrive on a stream of their own before they are moved to the fixed addresses."""

from __future__ import annotations

import torch

from ..devices.base import Device, Work
from ..devices.costs import MOVE

Pair = tuple[torch.Tensor, torch.Tensor]
"""(fixed address, landing): equal shapes."""


class Landing:
    """Moves what the step's copies have brought, as one operation of the compute stream.

    Hazard: the next copy into a landing buffer has to wait for the move that empties it.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._waiting: list[Pair] = []
        self._copies: list[int] = []

    def arrived(self, fixed: torch.Tensor, landing: torch.Tensor, copy: int) -> None:
        """`copy`, just enqueued, fills `landing`."""
        self._waiting.append((fixed, landing))
        self._copies.append(copy)

    def move(self) -> None:
        """Enqueue the move of everything that arrived since the last one, behind whatever awaits the copies."""
        pairs, self._waiting = self._waiting, []
        copies, self._copies = self._copies, []
        if not pairs:
            return
        moved_bytes = sum(landing.nbytes for _, landing in pairs)

        def move() -> None:
            for fixed, landing in pairs:
                fixed.copy_(landing)

        self._device.launch("land_inputs", move, Work(MOVE, moved_bytes=moved_bytes), consumes=copies)
