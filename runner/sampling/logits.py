"""Where the LM head is applied: to each request's last position, or to every position of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from ...errors import UsageError
from ...instrumentation.probe.api import ProbeLike
from ..config import LogitsMode
from ..devices.base import Device, Work
from ..inputs.step_inputs import StepInputs
from ..models.llama import LlamaModel


class LogitsSource(Protocol):
    """One way from hidden states to the logits of the positions that decide."""

    def logits(self, hidden: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """[R, vocab] float32 in batch row order, for hidden [Q', H]; with drafts [R + D, vocab], see `expand`."""
        ...


def deciding_places(inputs: StepInputs) -> tuple[int, torch.Tensor]:
    """How many places of the flat stream are projected, and which: each row's last, or also those before its drafts."""
    if inputs.speculation is not None:
        return inputs.speculation.num_logits, inputs.speculation.logits_indices_gpu
    return inputs.num_reqs, inputs.logits_indices_gpu[: inputs.num_reqs]


class _Logits:
    """One operation and one range for the gather and the product: the gather takes 2 us of a device, and as an
    operation of its own would cost every step a call and, where operations are timed, an event.
    """

    def __init__(self, device: Device, model: LlamaModel, probe: ProbeLike) -> None:
        self._device = device
        self._model = model
        self._launch = probe.timed("lm_head", _Logits._launch_head)

    def _launch_head(self, scores: Callable[[], torch.Tensor], tokens: int, rows: int) -> torch.Tensor:
        """What `scores` gives, which projects `tokens` places and gathers `rows` of them, before or afterwards."""
        return self._device.launch("lm_head", scores, Work("lm_head", tokens=tokens, rows=rows))


class LastPosition(_Logits):
    """Gather R hidden states, then project: the vocabulary product covers only what is sampled."""

    def logits(self, hidden: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """Range lm_head."""
        rows, indices = deciding_places(inputs)
        return self._launch(self, lambda: self._model.logits(hidden.index_select(0, indices)), rows, rows)


class AllPositions(_Logits):
    """Project all Q real positions, then gather: what the last-position rule saves can be measured against it."""

    def logits(self, hidden: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """Range lm_head."""
        (rows, indices), tokens = deciding_places(inputs), inputs.num_tokens
        return self._launch(self, lambda: self._model.logits(hidden[:tokens]).index_select(0, indices), tokens, rows)


def make_logits_source(mode: LogitsMode, device: Device, model: LlamaModel, probe: ProbeLike) -> LogitsSource:
    """The object behind the switch `logits`."""
    if mode == "last_position":
        return LastPosition(device, model, probe)
    if mode == "all_positions":
        return AllPositions(device, model, probe)
    raise UsageError(f"logits: unknown value {mode!r}; known are last_position, all_positions")
