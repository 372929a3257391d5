"""The last phase of a step: logits where needed, and one token a row, on the device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ...instrumentation.probe.api import ProbeLike
from ..config import RunnerConfig
from ..devices.base import Device, Work
from ..handoff.outputs import OutputRing, OutputSlot
from ..inputs.step_inputs import StepInputs
from ..models.llama import LlamaModel
from ..state.sampling_metadata import SamplingMetadata
from .draw import DrawOptions, draw
from .logits import make_logits_source
from .uniforms import row_uniforms


class Sampler:
    """Samples every row of the batch into the step's slot of `ring`.

    Rows of an unfinished prompt are sampled too, which keeps the batch's shape, but never become visible and never
    touch a generator. Ranges: gather_hidden, lm_head, sample.
    """

    def __init__(
        self, device: Device, model: LlamaModel, probe: ProbeLike, config: RunnerConfig, ring: OutputRing
    ) -> None:
        self._device = device
        self._probe = probe
        self._seed = config.model_seed
        self._logits = make_logits_source(config.logits, device, model, probe)
        self._ring = ring

    def sample(self, hidden: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata) -> OutputSlot:
        """The slot that holds the step's tokens, for hidden [Q', H]. Waits for nothing."""
        logits = self._logits.logits(hidden, inputs)
        rows, slot = inputs.num_reqs, self._ring.take(inputs.step)
        with self._probe.range("sample"):
            self._device.launch(
                "sample",
                lambda: self._write_tokens(slot.sampled, logits, inputs, sampling),
                Work("sample", tokens=rows, rows=rows),
            )
        return slot

    @torch.inference_mode()
    def _write_tokens(
        self, sampled: torch.Tensor, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata
    ) -> None:
        if sampling.forbidden is not None:
            forbidden = torch.from_numpy(sampling.forbidden).to(logits.device)
            logits = logits.masked_fill(forbidden, float("-inf"))
        tokens = logits.argmax(dim=-1)
        if not sampling.all_greedy:
            self._draw_rows(tokens, logits, inputs, sampling)
        sampled[: tokens.numel(), 0].copy_(tokens)

    def _draw_rows(
        self, tokens: torch.Tensor, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata
    ) -> None:
        """Replace the greedy token of each visible row that has a temperature.

        Rows with top_k or top_p are drawn apart: they invert the distribution in falling order, the others in the
        vocabulary's, so one number means another token there, and no row's token may depend on its neighbours.
        """
        rows = np.flatnonzero((sampling.temperature > 0) & ~inputs.discard)
        limited = (sampling.top_k[rows] > 0) | (sampling.top_p[rows] < 1)
        for group, limits in ((rows[~limited], False), (rows[limited], True)):
            if group.size:
                where = torch.from_numpy(group).to(logits.device)
                options = self._options(group, inputs, sampling, limited=limits)
                tokens[where] = draw(logits[where], options)

    def _options(
        self, rows: npt.NDArray[np.intp], inputs: StepInputs, sampling: SamplingMetadata, *, limited: bool
    ) -> DrawOptions:
        device = self._device.tensor_device
        return DrawOptions(
            temperature=torch.from_numpy(sampling.temperature[rows]).to(device),
            top_k=torch.from_numpy(sampling.top_k[rows].astype(np.int64)).to(device),
            top_p=torch.from_numpy(sampling.top_p[rows].astype(np.float64)).to(device),
            uniform=row_uniforms(rows, inputs, sampling, self._seed).to(device),
            limited=limited,
        )
