"""Synthetic drafts proposed on the device, behind tokens that the host has not got yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ...instrumentation.probe.api import ProbeLike
from ...workloads.acceptance import SyntheticAcceptance, num_right
from ..buffers.ports import InputBuffer
from ..devices.base import Device, Work
from ..devices.costs import MOVE
from ..handoff.outputs import NOTHING, OutputSlot
from ..inputs.step_inputs import StepInputs
from ..state.update import WorkerState
from .drafter import Drafts
from .expansion import IntArray
from .synthetic import Continuations

BY_TABLE = -1
"""In the place of a row's number of right drafts: it depends on its length, which only the device knows."""
FIELDS = 4
"""Numbers of a row that the host sends: continuation, prompt length, drafts verified in the step, right drafts."""


class KnownTexts:
    """All continuations on the device, and for each place in them how many drafts a rate lets be right.

    tokens [requests, longest + k + 1] int32; where a text ends, token 0 stands. right the same shape.
    """

    def __init__(self, texts: Continuations, acceptance: SyntheticAcceptance, k: int, device: Device) -> None:
        self.row_of = {req_id: row for row, req_id in enumerate(texts)}
        width = max((text.size for text in texts.values()), default=0) + k + 1
        tokens = np.zeros((max(len(texts), 1), width), dtype=np.int32)
        right = np.zeros_like(tokens)
        for row, (req_id, text) in enumerate(texts.items()):
            tokens[row, : text.size] = text
            if acceptance.pattern == "rate":
                right[row, : text.size] = [num_right(acceptance, (req_id, at), 0, k) for at in range(text.size)]
        self.tokens, self.right = _on_device(tokens, device), _on_device(right, device)
        self.last = width - k - 1


class DeviceDrafter:
    """Proposes into the step's slot, on the device. Range: propose_drafts.

    One small copy and a few launches a step: the price of knowing the text before, not that of a drafter.
    """

    def __init__(
        self, device: Device, probe: ProbeLike, texts: KnownTexts, acceptance: SyntheticAcceptance,
        shape: tuple[int, int], rows: InputBuffer,
    ) -> None:  # fmt: skip
        self.num_drafts, self._vocab_size = shape
        self._device, self._texts, self._acceptance, self._rows = device, texts, acceptance, rows
        self._propose = probe.timed("propose_drafts", DeviceDrafter._launch)
        self._columns = torch.arange(self.num_drafts, device=device.tensor_device)
        self._turns: dict[str, int] = {}

    def propose(self, state: WorkerState, sampled: Mapping[str, tuple[int, ...]]) -> Drafts:
        """Nothing: the device has them."""
        return {}

    def ahead(self, slot: OutputSlot, inputs: StepInputs, state: WorkerState) -> None:
        """Fill the slot's drafts behind the tokens that the step samples."""
        self._propose(self, slot, inputs, state)

    def _launch(self, slot: OutputSlot, inputs: StepInputs, state: WorkerState) -> None:
        count, info = inputs.num_reqs, self._rows.acquire()
        info[: FIELDS * count] = self._host_part(inputs, state).reshape(-1)
        copied = self._rows.publish(FIELDS * count)
        self._device.launch(
            "propose_drafts",
            lambda: self._write(slot, inputs),
            Work(MOVE, tokens=count * self.num_drafts, rows=count, moved_bytes=4 * count * self.num_drafts),
            consumes=(copied,) if copied else (),
        )

    def _host_part(self, inputs: StepInputs, state: WorkerState) -> IntArray:
        """[FIELDS, R]. A row that shows nothing has drafts that nobody takes."""
        spec, ids = inputs.speculation, inputs.req_ids
        part = np.zeros((FIELDS, len(ids)), dtype=np.int32)
        part[0] = [self._texts.row_of[req_id] for req_id in ids]
        part[1] = [state.requests[req_id].num_prompt_tokens for req_id in ids]
        if spec is not None:
            part[2] = spec.expansion.num_draft_tokens
        part[3] = [
            self._right(req_id) if shown else 0 for req_id, shown in zip(ids, (~inputs.discard).tolist(), strict=True)
        ]
        return part

    def _right(self, req_id: str) -> int:
        if self._acceptance.pattern == "rate":
            return BY_TABLE
        turn = self._turns.get(req_id, 0)
        self._turns[req_id] = turn + 1
        return num_right(self._acceptance, (req_id, 0), turn, self.num_drafts)

    @torch.inference_mode()
    def _write(self, slot: OutputSlot, inputs: StepInputs) -> None:
        assert slot.drafts is not None, "the ring was made without room for drafts"
        count, texts = inputs.num_reqs, self._texts
        text, prompt, verified, right = self._rows.gpu[: FIELDS * count].view(FIELDS, count).long()
        sampled = (slot.sampled[:count] != NOTHING).sum(dim=1)
        place = (inputs.seq_lens_gpu[:count] - verified + sampled - prompt).clamp_(0, texts.last)
        known = texts.tokens[text[:, None], place[:, None] + self._columns]
        right = torch.where(right == BY_TABLE, texts.right[text, place], right)
        wrong = (known + 1) % self._vocab_size
        slot.drafts[:count] = torch.where(self._columns < right[:, None], known, wrong)


def _on_device(array: IntArray, device: Device) -> torch.Tensor:
    tensor = device.empty(array.shape, torch.int32)
    tensor.copy_(torch.from_numpy(array))
    return tensor
