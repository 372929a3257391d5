"""Sampling options of some rows as tensors beside their logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..state.sampling_metadata import SamplingMetadata
from .draw import DrawOptions

Rows = npt.NDArray[np.intp]


def by_limits(rows: Rows, sampling: SamplingMetadata) -> tuple[tuple[Rows, bool], ...]:
    """`rows` without and with top_k or top_p, where there are any, and whether they have.

    They are drawn apart: limited rows invert the distribution in falling order, the others in the vocabulary's, so one
    number means another token there, and no row's token may depend on its neighbours.
    """
    limited = (sampling.top_k[rows] > 0) | (sampling.top_p[rows] < 1)
    groups = ((rows[~limited], False), (rows[limited], True))
    return tuple(group for group in groups if group[0].size)


def options_of(
    rows: Rows, sampling: SamplingMetadata, uniform: torch.Tensor, device: torch.device, *, limited: bool
) -> DrawOptions:
    """Options for logits whose i-th row is drawn as the batch's row rows[i] says.

    Nobody waits for the copies: the driver has taken so little out of ordinary memory when the call returns.
    """
    return DrawOptions(
        temperature=torch.from_numpy(sampling.temperature[rows]).to(device, non_blocking=True),
        top_k=torch.from_numpy(sampling.top_k[rows].astype(np.int64)).to(device, non_blocking=True),
        top_p=torch.from_numpy(sampling.top_p[rows].astype(np.float64)).to(device, non_blocking=True),
        uniform=uniform.to(device, non_blocking=True),
        limited=limited,
    )
