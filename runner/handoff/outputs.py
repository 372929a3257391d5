"""Where a step's sampled tokens live until the host has them: a slot for each step in flight, and their way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ...errors import UsageError
from ..devices.base import Device, Event

NOTHING = -1
"""Fills the places of a row behind its last token."""


@dataclass(slots=True)
class OutputSlot:
    """One step's tokens on the device and their copy on the host.

    sampled   [rows, width] int32 on the device, rows in that step's order, NOTHING behind a row's tokens; what a
              discarded row sampled is never read
    host      the same on the host; readable behind `event` only
    drafts    [rows, k] int32 on the device, proposed behind the tokens; None where the host proposes or nobody does
    step      the step that owns the slot, None once its tokens were collected
    event     behind the copy to the host: its own for each step, for an event that is used again would make one step
              wait for the next
    """

    sampled: torch.Tensor
    host: torch.Tensor
    view: npt.NDArray[np.int32]
    drafts: torch.Tensor | None = None
    step: int | None = None
    event: Event | None = None


class OutputRing:
    """As many slots as steps may be in flight, used in turn.

    Hazard: a slot must not be sampled into while its copy to the host runs or the host has not read it. Nobody waits
    for that here: a slot whose tokens were not collected is refused.
    """

    def __init__(
        self, device: Device, rows: int, depth: int, *, pinned: bool, width: int = 1, num_drafts: int = 0
    ) -> None:
        self._device = device
        self._slots = [_slot(device, (rows, width), pinned=pinned) for _ in range(depth)]
        for slot in self._slots if num_drafts else ():
            slot.drafts = device.empty((rows, num_drafts), torch.int32)
        self._next = 0

    @property
    def depth(self) -> int:
        """Steps that may be in flight."""
        return len(self._slots)

    def take(self, step: int) -> OutputSlot:
        """The slot for `step`. Raises UsageError while the step that used it last was not collected."""
        slot = self._slots[self._next]
        if slot.step is not None:
            raise UsageError(
                f"step {step}: {self.depth} steps are in flight already; collect the result of step {slot.step} first"
            )
        self._next = (self._next + 1) % len(self._slots)
        slot.step = step
        return slot


def tokens_of(slot: OutputSlot, rows: int) -> list[tuple[int, ...]]:
    """The tokens of the first `rows` rows, from the slot's copy on the host; behind a row's tokens stands NOTHING."""
    if slot.view.shape[1] == 1:
        return [(token,) for token in slot.view[:rows, 0].tolist()]
    counts = np.count_nonzero(slot.view[:rows] != NOTHING, axis=1).tolist()
    return [tuple(row[:count]) for row, count in zip(slot.view[:rows].tolist(), counts, strict=True)]


class ReturnRoad:
    """Copies a slot's tokens to the host on the compute stream, in order behind the sampling."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def send(self, slot: OutputSlot, rows: int) -> None:
        """Enqueue the copy of the first `rows` rows and an event behind it."""
        self._device.copy_to_host(slot.host[:rows], slot.sampled[:rows], buffer="sampled_tokens")
        slot.event = self._device.record("compute")


class OutputStreamRoad:
    """The same on a stream of its own: the next step's work is not behind the copy, nor the copy behind that work."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def send(self, slot: OutputSlot, rows: int) -> None:
        """Enqueue the copy behind what the compute stream has got so far, and an event behind the copy."""
        device = self._device
        device.stream_wait("output", device.record("compute"))
        device.copy_to_host(slot.host[:rows], slot.sampled[:rows], buffer="sampled_tokens", stream="output")
        slot.event = device.record("output")


def _slot(device: Device, shape: tuple[int, int], *, pinned: bool) -> OutputSlot:
    host = device.host_tensor(shape, torch.int32, pinned=pinned)
    return OutputSlot(device.empty(shape, torch.int32), host, host.numpy())
