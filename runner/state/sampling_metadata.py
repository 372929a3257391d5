"""Sampling options of the batch, by row: what the sampler takes beside the logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .seeded_stream import SeededStream


@dataclass(slots=True, eq=False)  # frozen takes four times as long to make, and churn makes one a step
class SamplingMetadata:
    """Copies of the sampling columns of R rows; a new object exactly when the batch's membership changed. Nobody writes
    to one.

    temperature  [R] float32, 0 is greedy
    top_k        [R] int32, 0 is off
    top_p        [R] float32, 1 is off
    generators   row -> the request's own generator; rows without one share the sampler's
    forbidden    [R, vocab] bool, True forbids the token; None when no row restricts its tokens
    all_greedy   no row is sampled at random; True in an empty batch
    """

    num_reqs: int
    temperature: npt.NDArray[np.float32]
    top_k: npt.NDArray[np.int32]
    top_p: npt.NDArray[np.float32]
    generators: Mapping[int, SeededStream]
    forbidden: npt.NDArray[np.bool_] | None
    all_greedy: bool
