"""The last phase of a step: logits where needed, and the tokens of each row, on the device."""

from __future__ import annotations

import numpy as np
import torch

from ...instrumentation.probe.api import ProbeLike
from ..config import RunnerConfig
from ..devices.base import Device, Work
from ..handoff.outputs import NOTHING, OutputRing, OutputSlot
from ..inputs.step_inputs import StepInputs
from ..models.llama import LlamaModel
from ..state.sampling_metadata import SamplingMetadata
from .draw import draw
from .logits import make_logits_source
from .options import by_limits, options_of
from .rejection_sampler import RejectionSampler
from .uniforms import row_uniforms


class Sampler:
    """Samples every row of the batch into the step's slot of `ring`.

    Rows of an unfinished prompt are sampled too, which keeps the batch's shape, but never become visible and never
    touch a generator. Ranges: lm_head, sample.
    """

    def __init__(
        self, device: Device, model: LlamaModel, probe: ProbeLike, config: RunnerConfig, ring: OutputRing
    ) -> None:
        self._device = device
        self._launch = probe.timed("sample", Sampler._launch_sampling)
        self._seed = config.model_seed
        self._logits = make_logits_source(config.logits, device, model, probe)
        self._ring = ring
        self._rejection = RejectionSampler(config.model_seed)

    def sample(self, hidden: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata) -> OutputSlot:
        """The slot that holds the step's tokens, for hidden [Q', H]. Waits for nothing."""
        logits = self._logits.logits(hidden, inputs)
        slot = self._ring.take(inputs.step)
        self._launch(self, slot.sampled, logits, inputs, sampling)
        return slot

    def _launch_sampling(
        self, sampled: torch.Tensor, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata
    ) -> None:
        rows = int(logits.shape[0])
        self._device.launch(
            "sample",
            lambda: self._write_tokens(sampled, logits, inputs, sampling),
            Work("sample", tokens=rows, rows=rows),
        )

    @torch.inference_mode()
    def _write_tokens(
        self, sampled: torch.Tensor, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata
    ) -> None:
        """Fill the rows of `sampled` [>= R, width]: a row's tokens, then NOTHING."""
        rows = inputs.num_reqs
        if inputs.speculation is not None:
            sampled[:rows].copy_(self._rejection.sample(logits, inputs, inputs.speculation, sampling))
            return
        if sampling.forbidden is not None:
            forbidden = torch.from_numpy(sampling.forbidden).to(logits.device, non_blocking=True)
            logits = logits.masked_fill(forbidden, float("-inf"))
        tokens = logits.argmax(dim=-1)
        if not sampling.all_greedy:
            self._draw_rows(tokens, logits, inputs, sampling)
        sampled[:rows, 0].copy_(tokens)
        sampled[:rows, 1:].fill_(NOTHING)

    def _draw_rows(
        self, tokens: torch.Tensor, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata
    ) -> None:
        """Replace the greedy token of each visible row that has a temperature."""
        rows = np.flatnonzero((sampling.temperature > 0) & ~inputs.discard)
        for group, limited in by_limits(rows, sampling):
            where = torch.from_numpy(group).to(logits.device, non_blocking=True)
            uniform = row_uniforms(group, inputs, sampling, self._seed)
            options = options_of(group, sampling, uniform, logits.device, limited=limited)
            tokens[where] = draw(logits[where], options)
