"""Blocks of hand: launches with chosen effects, and a little noise so that they are real."""

from __future__ import annotations

import numpy as np
from stepscope.analysis.gate.pairs import Flags, PairBlocks

EQUAL = (0.001, -0.001, 0.002, -0.002, 0.0005)
SLOWER = (0.050, 0.049, 0.052, 0.048, 0.051)


def alternating(launches: int, pairs: int) -> Flags:
    """[launches, pairs] of `head_first` in the order A B | B A | A B ..."""
    return np.broadcast_to(np.arange(pairs) % 2 == 1, (launches, pairs)).copy()


def blocks(effects: tuple[float, ...] = EQUAL, pairs: int = 6, seed: int = 0, **changed: object) -> PairBlocks:
    """Launches whose median log ratios are near `effects`."""
    rng = np.random.default_rng(seed)
    shape = (len(effects), pairs)
    base = 20e6 * np.exp(0.002 * rng.standard_normal(shape))
    head = base * np.exp(np.array(effects)[:, None] + 0.0002 * rng.standard_normal(shape))
    fields = {"base": base, "head": head, "head_first": alternating(*shape), "dropped": np.zeros(shape, bool)}
    return PairBlocks(**{**fields, **changed})
