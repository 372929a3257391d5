"""The hand-off with drafts corrected on the device: the host prepared the step as if all drafts of the last were
accepted.

One kernel runs between the copies of the step's inputs and their first reader. It puts tokens and drafts of the step
before into the input ids, and lowers positions and lengths by the number of rejected drafts. Slots are computed from
the positions afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ..buffers.ports import InputBuffer
from ..devices.base import Device, Work
from ..devices.costs import MOVE
from ..handoff.outputs import NOTHING
from ..handoff.plan import PreviousStep
from ..inputs.flat_indices import FlatIndices
from .expansion import IntArray
from .flight_map import FIELDS, FlightMap, FlownStep, map_flight
from .verification import HostDrafts

CORRECTION = "correct_counts"
"""Name of the device operation."""


@dataclass(frozen=True, slots=True)
class CorrectedBuffers:
    """Step inputs that the correction writes on the device; `drafts` begins with the drafts [R * k]."""

    map: InputBuffer  # [FIELDS * rows] int32
    input_ids: InputBuffer
    positions: InputBuffer
    seq_lens: InputBuffer
    drafts: InputBuffer


@dataclass(frozen=True, slots=True)
class FlightTensors:
    """What one correction reads (sampled [rows, k + 1] and proposed [rows, k] of the step before) and writes."""

    map: torch.Tensor
    sampled: torch.Tensor
    proposed: torch.Tensor
    input_ids: torch.Tensor
    positions: torch.Tensor
    seq_lens: torch.Tensor
    drafts: torch.Tensor


class CorrectingHandoff:
    """A `Handoff` for steps with drafts. `placement` knows the drafts of the step; `arrived` has to be called where the
    compute stream waits for the step's copies.
    """

    depth = 2

    def __init__(self, device: Device, buffers: CorrectedBuffers, placement: HostDrafts) -> None:
        self._device = device
        self._buffers = buffers
        self._placement = placement
        self._correct = _kernel(device)
        self._before: FlownStep | None = None
        self._drafts: IntArray = np.zeros(0, dtype=np.int32)
        self._map: FlightMap | None = None
        self._copied = 0

    def plan(
        self, req_ids: tuple[str, ...], scheduled: IntArray, flat: FlatIndices, input_ids: IntArray,
        refill: Callable[[], None],
    ) -> bool:  # fmt: skip
        """Find the rows in flight; the host's input ids always travel, for drafts that nobody has are among them."""
        self._drafts = self._placement.counts(len(req_ids))
        self._map = map_flight(req_ids, scheduled, self._drafts, input_ids, self._before)
        return True

    def prepare(self) -> None:
        """Send the map."""
        if self._map is not None:
            used = self._map.write(self._buffers.map.acquire())
            self._copied = self._buffers.map.publish(used)

    def arrived(self) -> None:
        """Correct, once a step."""
        flight, self._map = self._map, None
        if flight is None or self._before is None:
            return
        count, slot, buffers = flight.count, self._before.step.slot, self._buffers
        assert slot.drafts is not None, "drafts are proposed on the device"
        tensors = FlightTensors(
            buffers.map.gpu, slot.sampled, slot.drafts, buffers.input_ids.gpu, buffers.positions.gpu,
            buffers.seq_lens.gpu, buffers.drafts.gpu,
        )  # fmt: skip
        tokens = count + int(flight.drafts.sum())
        self._device.launch(
            CORRECTION,
            lambda: self._correct(tensors, count),
            Work(MOVE, tokens=tokens, rows=count, moved_bytes=16 * tokens),
            consumes=(self._copied,) if self._copied else (),
        )

    def apply(self, input_ids: torch.Tensor) -> None:
        """Done already: slots had to be mapped behind it."""

    def submitted(self, previous: PreviousStep, collect: Callable[[], None]) -> None:
        """Remember the step, and how many drafts it verifies in each row."""
        self._before = FlownStep(previous, self._drafts)


def correct_on_host(tensors: FlightTensors, count: int) -> None:
    """What the kernel does, on device tensors that live in host memory."""
    table = tensors.map[: FIELDS * count].numpy().reshape(FIELDS, count)
    sampled, proposed = tensors.sampled.numpy(), tensors.proposed.numpy()
    ids, positions, lengths = tensors.input_ids.numpy(), tensors.positions.numpy(), tensors.seq_lens.numpy()
    drafts = tensors.drafts.numpy()
    k = proposed.shape[1]
    for row, place, source, verified, num_drafts in table.T.tolist():
        num_sampled = int((sampled[source] != NOTHING).sum())
        rejected = verified + 1 - num_sampled
        own = proposed[source, :num_drafts]
        ids[place] = sampled[source, num_sampled - 1]
        ids[place + 1 : place + 1 + num_drafts] = np.maximum(own, 0)
        drafts[row * k : row * k + num_drafts] = own
        positions[place : place + 1 + num_drafts] -= rejected
        lengths[row] -= rejected


def _kernel(device: Device) -> Callable[[FlightTensors, int], None]:
    if device.tensor_device.type != "cuda":
        return correct_on_host
    from ..kernels.draft_counts import correct_counts

    def correct_on_device(tensors: FlightTensors, count: int) -> None:
        correct_counts(
            tensors.map, tensors.sampled, tensors.proposed, tensors.input_ids, tensors.positions, tensors.seq_lens,
            tensors.drafts, count,
        )  # fmt: skip

    return correct_on_device
