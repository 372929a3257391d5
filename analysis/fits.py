"""Lines and planes through points some of which are far off."""

from __future__ import annotations

import numpy as np

from .columns import FloatArray

ROUNDS = 8
LEAST_OFF_NS = 1_000.0
"""Points nearer than that to what is fitted count alike, or a single one of them could hold it fast."""


def least_absolute(terms: FloatArray, values_ns: FloatArray) -> FloatArray:
    """Coefficients [k] by least absolute differences of `terms` [n, k] from `values_ns` [n]: least squares with
    weights, a few times over. What cannot be told, for terms that are zero or repeat each other, is kept small.
    """
    weights: FloatArray = np.ones(len(values_ns))
    found: FloatArray = np.zeros(terms.shape[1])
    for _ in range(ROUNDS):
        fit, *_ = np.linalg.lstsq(terms * weights[:, None], values_ns * weights, rcond=None)
        found = fit.astype(np.float64)
        weights = 1 / np.sqrt(np.maximum(np.abs(values_ns - terms @ found), LEAST_OFF_NS))
    return found
