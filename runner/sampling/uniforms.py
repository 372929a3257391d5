"""The one random number that a sampled row uses in a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..inputs.step_inputs import StepInputs
from ..seeds import stream_seed
from ..state.sampling_metadata import SamplingMetadata


def row_uniforms(
    rows: npt.NDArray[np.intp], inputs: StepInputs, sampling: SamplingMetadata, runner_seed: int
) -> torch.Tensor:
    """One number in [0, 1) for each of `rows`, [len(rows)] float64. Ask for rows that become visible only.

    A row with a stream of its own draws the next number; a discarded sample must not, else a seeded request would
    depend on how its prompt was cut. Other rows hash (runner seed, request, length): the same in every run, whatever
    was preempted in between, and nothing has to be kept for them.
    """
    numbers = [_uniform(int(row), inputs, sampling, runner_seed) for row in rows]
    return torch.tensor(numbers, dtype=torch.float64)


def _uniform(row: int, inputs: StepInputs, sampling: SamplingMetadata, runner_seed: int) -> float:
    generator = sampling.generators.get(row)
    if generator is not None:
        return generator.number(inputs.step)
    seed = stream_seed(runner_seed, "sampling", inputs.req_ids[row], str(inputs.seq_lens[row]))
    return (seed >> 10) * 2.0**-53  # 63 bits to the 53 of a float64 below 1
