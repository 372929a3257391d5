"""Sending a slot to the device: the copy, the guard, and the `buffers` row with its hazard verdict."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from ...instrumentation.probe.ledger import Ledger
from ..devices.base import Device, StreamName
from .arrivals import Arrivals, Sum, checksum
from .slots import Slot, Supply
from .targets import TargetUses


class Publisher:
    """Copies slots of one buffer to the device.

    Verdicts on a row of the table `buffers`
      possible  the slot was handed to its writer without proof that the copy before had ended (the row is the one of
                the use that took the slot too early)
      observed  what arrived is not what was sent (the row is the one of the copy that was spoilt); `verify` only
    With `verify` a checksum is taken on the host before the copy and on the device behind it, and rows are written by
    `flush`. That costs time; it is for tests and checks. `target` gives verdicts on the device side.
    """

    def __init__(
        self, device: Device, ledger: Ledger, name: str, stream: StreamName, supply: Supply, *, verify: bool,
    ) -> None:
        self.name = name
        self.stream = stream
        self.supply = supply
        self._device = device
        self._ledger = ledger
        self._rows = ledger.table("buffers")
        self._arrivals = Arrivals(device, ledger, name, stream) if verify else None
        self.target: TargetUses | None = None  # the factory gives it where copies run apart
        self.acquire: Callable[[], Slot] = partial(supply.acquire, f"buffer:{name}")
        """The next slot that may be written."""

    def send(self, slot: Slot, dst: torch.Tensor, src: torch.Tensor, changed_bytes: int | None) -> int:
        """Copy `src`, a part of the slot (or what it stands for), to `dst`. Returns the copy's correlation."""
        arrivals = self._arrivals
        sent = [] if arrivals is None else self._checksum(src)
        op = self._device.copy_to_device(
            dst, src, buffer=self.name, stream=self.stream, changed_bytes=changed_bytes
        )
        reuse_count, slot.uses = slot.uses, slot.uses + 1
        if op:  # nothing was enqueued for an empty copy: nothing to guard
            slot.copy = op
            self.supply.sent(slot)
        supply, step = self.supply, self._ledger.step
        row = (
            self.name, supply.capacity_bytes, src.nbytes, supply.reserved_bytes, supply.memory, slot.index, reuse_count,
            slot.wait_ns,
        )
        hazard = "possible" if slot.exposed else "none"
        arrived = None
        if arrivals is None:
            self._rows.append((step, *row, hazard))
        else:
            arrived = arrivals.expect(step, row, hazard, sent, dst)
        if op and self.target is not None:
            self.target.sent(dst, arrived)
        return op

    def flush(self) -> None:
        """Write the rows whose copies have ended. After a synchronize these are all."""
        if self._arrivals is not None:
            self._arrivals.flush()
        if self.target is not None:
            self.target.flush()

    def _checksum(self, src: torch.Tensor) -> Sum:
        with self._device.paused():
            return [checksum(src)]
