"""All points together: a slowdown that no single point shows, and what their number does to significance."""

from __future__ import annotations

import numpy as np

from .effects import Estimate, estimate
from .limits import Limits
from .pairs import Flags, Floats


def geomean(effects: Floats) -> Estimate:
    """The geometric mean over points of head / base (log), by launch: effects [..., points, launches].

    A launch that lost a point is left out: else the points in it would change from launch to launch.
    """
    return estimate(np.asarray(effects.mean(axis=-2)))


def geomean_suspect(effects: Floats, limits: Limits) -> Flags:
    """All points together look slower by `geomean_effect`: every point is worth fresh launches."""
    found = geomean(effects)
    return np.asarray((found.bound(1 - limits.confidence) > 0) & (found.mean >= np.log1p(limits.geomean_effect)))


def geomean_confirmed(effects: Floats, fresh: Floats, limits: Limits) -> Flags:
    """All points together are surely slower by more than `geomean_effect`, on the fresh launches or on all of them."""
    pooled = np.concatenate([effects, fresh], axis=-1)
    low = [geomean(launches).bound(1 - limits.confirm_confidence) for launches in (fresh, pooled)]
    return np.asarray(np.fmax(*low) > np.log1p(limits.geomean_effect))


def holm(p_values: Floats) -> Floats:
    """Holm's adjusted p (1979) of a family [points]; not-a-number stays, and does not count as a member."""
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(np.isfinite(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    scaled = p_values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
