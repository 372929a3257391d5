"""The last phase of a step: logits where needed, one token a row, and its way back to the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ...instrumentation.probe.api import ProbeLike
from ...workloads.step import StepResult
from ..config import RunnerConfig
from ..devices.base import Device, Work
from ..inputs.step_inputs import StepInputs
from ..models.llama import LlamaModel
from ..state.sampling_metadata import SamplingMetadata
from .draw import DrawOptions, draw
from .logits import make_logits_source
from .uniforms import row_uniforms


class Sampler:
    """Samples every row of the batch and shows the tokens of those that `discard` lets through.

    Rows of an unfinished prompt are sampled too, which keeps the batch's shape, but never become visible and never
    touch a generator. Ranges: gather_hidden, lm_head, sample, copy_tokens.
    """

    def __init__(self, device: Device, model: LlamaModel, probe: ProbeLike, config: RunnerConfig) -> None:
        self._device = device
        self._probe = probe
        self._seed = config.model_seed
        self._logits = make_logits_source(config.logits, device, model, probe)
        self._sampled = device.empty((config.max_num_seqs,), torch.int32)
        # One host slot is enough: the wait in `_tokens` ends the copy before anyone writes here again.
        self._host = device.host_tensor((config.max_num_seqs,), torch.int32, pinned=config.staging != "pageable")
        self._host_view = self._host.numpy()

    def sample(self, hidden: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata) -> StepResult:
        """The step's visible tokens, for hidden [Q', H]. Waits for the tokens: the only host wait of the phase."""
        logits = self._logits.logits(hidden, inputs)
        rows = inputs.num_reqs
        with self._probe.range("sample"):
            self._device.launch(
                "sample",
                lambda: self._write_tokens(logits, inputs, sampling),
                Work("sample", tokens=rows, rows=rows),
            )
        with self._probe.range("copy_tokens"):
            tokens = self._tokens(rows)
        visible = zip(inputs.req_ids, tokens, inputs.discard.tolist(), strict=True)
        return StepResult(inputs.step, {req_id: (token,) for req_id, token, hide in visible if not hide})

    def _tokens(self, rows: int) -> list[int]:
        self._device.copy_to_host(self._host[:rows], self._sampled[:rows], buffer="sampled_tokens")
        self._device.host_wait(self._device.record("compute"), "tokens")
        tokens: list[int] = self._host_view[:rows].tolist()
        return tokens

    @torch.inference_mode()
    def _write_tokens(self, logits: torch.Tensor, inputs: StepInputs, sampling: SamplingMetadata) -> None:
        if sampling.forbidden is not None:
            forbidden = torch.from_numpy(sampling.forbidden).to(logits.device)
            logits = logits.masked_fill(forbidden, float("-inf"))
        tokens = logits.argmax(dim=-1)
        if not sampling.all_greedy:
            self._draw_rows(tokens, logits, inputs, sampling)
        self._sampled[: tokens.numel()].copy_(tokens)

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
        device = self._sampled.device
        return DrawOptions(
            temperature=torch.from_numpy(sampling.temperature[rows]).to(device),
            top_k=torch.from_numpy(sampling.top_k[rows].astype(np.int64)).to(device),
            top_p=torch.from_numpy(sampling.top_p[rows].astype(np.float64)).to(device),
            uniform=row_uniforms(rows, inputs, sampling, self._seed).to(device),
            limited=limited,
        )
