"""Sending a slot to the device: the copy, the guard, and the `buffers` row with its hazard verdict."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch

from ...instrumentation.probe.ledger import Ledger
from ..devices.base import Device, StreamName, Work
from ..devices.costs import CHECK
from .slots import Slot, Supply


@dataclass(slots=True)
class _Arrival:
    """A `buffers` row that waits for its verdict. `arrived` is filled on the device's side, behind the copy."""

    step: int | None
    row: tuple[object, ...]  # without the hazard
    hazard: str
    sent: int
    arrived: list[torch.Tensor]
    op: int


class Publisher:
    """Copies slots of one buffer to the device.

    Verdicts on a row of the table `buffers`
      possible  the slot was handed to its writer without proof that the copy before had ended (the row is the one of
                the use that took the slot too early)
      observed  what arrived is not what was sent (the row is the one of the copy that was spoilt); `verify` only
    With `verify` a checksum is taken on the host before the copy and on the device behind it, and a row is written
    when its copy has ended: at a later use, or by `flush`. That costs time; it is for tests and checks.
    """

    def __init__(
        self, device: Device, ledger: Ledger, name: str, stream: StreamName, supply: Supply, *, verify: bool,
    ) -> None:
        self.name = name
        self.stream = stream
        self.supply = supply
        self._device = device
        self._ledger = ledger
        self._verify = verify
        self._reason = f"buffer:{name}"
        self._arrivals: deque[_Arrival] = deque()

    def acquire(self) -> Slot:
        """The next slot that may be written."""
        return self.supply.acquire(self._reason)

    def send(self, slot: Slot, dst: torch.Tensor, src: torch.Tensor, changed_bytes: int | None) -> int:
        """Copy `src`, a part of the slot (or what it stands for), to `dst`. Returns the copy's correlation."""
        sent = self._checksum(src) if self._verify else 0
        op = self._device.copy_to_device(
            dst, src, buffer=self.name, stream=self.stream, changed_bytes=changed_bytes
        )
        reuse_count, slot.uses = slot.uses, slot.uses + 1
        if op:  # nothing was enqueued for an empty copy: nothing to guard
            slot.copy = op
            self.supply.sent(slot)
        supply, used_bytes = self.supply, src.nbytes
        row = (
            self.name, supply.capacity_bytes, used_bytes, supply.reserved_bytes, supply.memory, slot.index,
            reuse_count, slot.wait_ns,
        )
        hazard = "possible" if slot.exposed else "none"
        if self._verify:
            self._expect(row, hazard, sent, dst)
        else:
            self._ledger.add("buffers", *row, hazard)
        return op

    def flush(self) -> None:
        """Write the rows whose copies have ended. After a synchronize these are all."""
        while self._arrivals and self._device.is_done(self._arrivals[0].op):
            arrival = self._arrivals.popleft()
            same = int(arrival.arrived[0].item()) == arrival.sent
            hazard = arrival.hazard if same else "observed"
            self._ledger.table("buffers").append((arrival.step, *arrival.row, hazard))

    def _checksum(self, src: torch.Tensor) -> int:
        with self._device.paused():
            return int(checksum(src).item())

    def _expect(self, row: tuple[object, ...], hazard: str, sent: int, dst: torch.Tensor) -> None:
        self.flush()
        with self._device.paused():
            arrived: list[torch.Tensor] = []
            self._device.launch(
                f"check:{self.name}", lambda: arrived.append(checksum(dst)), Work(CHECK), stream=self.stream
            )
            op = self._device.record(self.stream).op
        self._arrivals.append(_Arrival(self._ledger.step, row, hazard, sent, arrived, op))


def checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Position-weighted sum of the bytes modulo 2^64, as a 0-d int64 tensor on the tensor's device.

    Weights are odd multiples, so that no single changed byte and no swap of two different bytes goes unnoticed.
    """
    values = tensor.contiguous().view(torch.uint8).flatten().to(torch.int64)
    weights = torch.arange(values.numel(), device=values.device, dtype=torch.int64) * 0x9E3779B97F4A7 + 1
    return ((values + 1) * weights).sum()
