"""Checks of copied data: checksums of what was sent and of what arrived are compared once the device has computed both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch

from ...instrumentation.probe.ledger import Ledger
from ..devices.base import Device, StreamName, Work
from ..devices.costs import CHECK

Sum = list[torch.Tensor]
"""One checksum; empty until the device has computed it."""
MOST_WAITING = 8_192
"""Verdicts are read at the end, or at latest when so many wait: reading one waits for the compute stream."""


@dataclass(slots=True)
class _Arrival:
    """A `buffers` row that waits for its verdict: both sums are known once `op` has ended."""

    step: int | None
    row: tuple[object, ...]  # without the hazard
    hazard: str
    sent: Sum
    found: Sum
    op: int


class Arrivals:
    """Rows of one buffer that wait for a verdict, in order."""

    def __init__(self, device: Device, ledger: Ledger, name: str, stream: StreamName) -> None:
        self._device = device
        self._ledger = ledger
        self._what = f"check:{name}"
        self._stream = stream
        self._waiting: deque[_Arrival] = deque()

    def expect(
        self, step: int | None, row: tuple[object, ...], hazard: str, sent: Sum, there: torch.Tensor
    ) -> Sum:
        """Enqueue a checksum of `there` on the stream, and return it. `row` is written later: with `hazard` if that
        checksum equals `sent`, else with the hazard `observed`.
        """
        if len(self._waiting) >= MOST_WAITING:
            self.flush()
        found: Sum = []
        with self._device.paused():
            self._device.launch(
                self._what, lambda: found.append(checksum(there)), Work(CHECK), stream=self._stream
            )
            op = self._device.record(self._stream).op
        self._waiting.append(_Arrival(step, row, hazard, sent, found, op))
        return found

    def flush(self) -> None:
        """Write the rows whose checksums are there. After a synchronize these are all."""
        while self._waiting and self._device.is_done(self._waiting[0].op):
            arrival = self._waiting.popleft()
            same = int(arrival.found[0].item()) == int(arrival.sent[0].item())
            hazard = arrival.hazard if same else "observed"
            self._ledger.table("buffers").append((arrival.step, *arrival.row, hazard))


def checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Position-weighted sum of the bytes modulo 2^64, as a 0-d int64 tensor on the tensor's device.

    Weights are odd multiples, so that no single changed byte and no swap of two different bytes goes unnoticed.
    """
    values = tensor.contiguous().view(torch.uint8).flatten().to(torch.int64)
    weights = torch.arange(values.numel(), device=values.device, dtype=torch.int64) * 0x9E3779B97F4A7 + 1
    return ((values + 1) * weights).sum()
