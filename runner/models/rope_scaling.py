"""Llama 3's stretched rotary frequencies, as a config.json describes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """`rope_type: llama3`. Wavelengths are in tokens, relative to the context length that was trained first."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def stretch(self, inv_freq: torch.Tensor) -> torch.Tensor:
        """Slow rotations divided by `factor`, fast ones kept, a linear ramp between. [head_dim / 2] float32."""
        wavelength = 2 * math.pi / inv_freq
        context = self.original_max_position_embeddings
        slow = wavelength > context / self.low_freq_factor
        fast = wavelength < context / self.high_freq_factor
        share = (context / wavelength - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        # The order of operations is Hugging Face's: float32 results must agree to the bit.
        ramp = (1 - share) * inv_freq / self.factor + share * inv_freq
        return torch.where(slow, inv_freq / self.factor, torch.where(fast, inv_freq, ramp))


def inverse_frequencies(head_dim: int, theta: float, scaling: Llama3Scaling | None) -> torch.Tensor:
    """Rotation per token of each pair of channels, [head_dim / 2] float32."""
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    inv_freq = 1.0 / (theta**exponent)
    return inv_freq if scaling is None else scaling.stretch(inv_freq)
