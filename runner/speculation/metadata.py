"""What the sampler needs of a step with drafts, beside the logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .expansion import Expansion


@dataclass(frozen=True, slots=True)
class SpecDecodeMetadata:
    """R rows with D drafts in all, k at most in a row. Views that hold until the next step.

    expansion           places on the host
    draft_token_ids     [R, k] int32 on the host, NO_DRAFT behind each row's, and for those that only the device knows
    drafts_gpu          [R, k] int32, the drafts that are verified
    first_logits_gpu    [R] int32, each row's first place in the gathered logits
    logits_indices_gpu  [R + D] int32, places in the flat stream
    """

    expansion: Expansion
    draft_token_ids: npt.NDArray[np.int32]
    drafts_gpu: torch.Tensor
    first_logits_gpu: torch.Tensor
    logits_indices_gpu: torch.Tensor

    @property
    def num_logits(self) -> int:
        """R + D."""
        return self.expansion.num_logits

    @property
    def drafted(self) -> tuple[int, int]:
        """Rows with drafts, and D."""
        own = self.expansion
        return int(np.count_nonzero(own.num_draft_tokens)), int(own.target_logits_indices.size)
