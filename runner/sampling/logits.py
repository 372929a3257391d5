"""Where the LM head is applied: to each request's last position, or to every position of the stream."""

from __future__ import annotations

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


class LastPosition:
    """Gather R hidden states, then project: the vocabulary product covers only what is sampled."""

    def __init__(self, device: Device, model: LlamaModel, probe: ProbeLike) -> None:
        self._device = device
        self._model = model
        self._gathering, self._projecting = probe.range("gather_hidden"), probe.range("lm_head")

    def logits(self, hidden: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """Ranges gather_hidden and lm_head."""
        rows, indices = deciding_places(inputs)
        with self._gathering:
            last = self._device.launch(
                "gather_hidden", lambda: hidden.index_select(0, indices), Work("gather_hidden", tokens=rows, rows=rows)
            )
        with self._projecting:
            return self._device.launch(
                "lm_head", lambda: self._model.logits(last), Work("lm_head", tokens=rows, rows=rows)
            )


class AllPositions:
    """Project all Q real positions, then gather: what the last-position rule saves can be measured against it."""

    def __init__(self, device: Device, model: LlamaModel, probe: ProbeLike) -> None:
        self._device = device
        self._model = model
        self._gathering, self._projecting = probe.range("gather_hidden"), probe.range("lm_head")

    def logits(self, hidden: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """Ranges lm_head and gather_hidden, in this order."""
        tokens = inputs.num_tokens
        rows, indices = deciding_places(inputs)
        with self._projecting:
            scores = self._device.launch(
                "lm_head", lambda: self._model.logits(hidden[:tokens]), Work("lm_head", tokens=tokens, rows=rows)
            )
        with self._gathering:
            return self._device.launch(
                "gather_hidden", lambda: scores.index_select(0, indices), Work("gather_hidden", tokens=rows, rows=rows)
            )


def make_logits_source(mode: LogitsMode, device: Device, model: LlamaModel, probe: ProbeLike) -> LogitsSource:
    """The object behind the switch `logits`."""
    if mode == "last_position":
        return LastPosition(device, model, probe)
    if mode == "all_positions":
        return AllPositions(device, model, probe)
    raise UsageError(f"logits: unknown value {mode!r}; known are last_position, all_positions")
