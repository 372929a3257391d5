"""A part of the step that may be 0, against stored results: as a share of the step's period, on a linear scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr

from .history import reach
from .limits import Limits
from .pairs import Floats
from .point import Figures, PointVerdict
from .verdict import Reason, Verdict

Part = tuple[float | None, float | None]
"""A part's time and the step's period, in one unit."""


def judge_history_share(
    point: str, metric: str, stored: Sequence[Part], new: Part, limits: Limits
) -> PointVerdict:  # fmt: skip
    """As `judge_history`, of what may be 0: effects are shares of the step.

    Stored results that are 0 throughout have no spread, and a new 0 is as before; of a part that was there before, a
    new 0 is no proof that it went: it decides nothing.
    """
    known = [(part, period) for part, period in stored if part is not None and period is not None]
    bad = _bad([new]) or _bad(known or [(None, None)])
    if bad is not None:
        return PointVerdict(point, metric, Verdict.ERROR, bad)
    shares = np.array([_share(part) for part in known])
    effect = _share(new) - float(shares.mean())
    verdict, reason = _verdict(shares, _share(new), effect, limits)
    told = PointVerdict(point, metric, verdict, reason, stage=1, figures=_figures(shares, effect, limits))
    return replace(told, detail="as a share of the step")


def _bad(parts: Sequence[Part]) -> Reason | None:
    if any(value is None for part in parts for value in part):
        return Reason.NOT_MEASURED
    if not all(math.isfinite(value) for part in parts for value in part if value is not None):
        return Reason.NOT_FINITE
    return Reason.NOT_POSITIVE if any((part or 0) < 0 or (period or 0) <= 0 for part, period in parts) else None


def _share(part: Part) -> float:
    value, period = part
    assert value is not None
    assert period is not None
    return float(value) / float(period)


def _verdict(shares: Floats, new: float, effect: float, limits: Limits) -> tuple[Verdict, Reason]:
    count = len(shares)
    if count < limits.min_history:
        return Verdict.INCONCLUSIVE, Reason.SINGLE_NUMBER if count == 1 else Reason.SHORT_HISTORY
    constant = not np.ptp(shares) > 0
    if (constant and shares[0] > 0) or (new == 0 and np.median(shares) >= limits.min_effect):
        return Verdict.INCONCLUSIVE, Reason.NO_VARIATION
    far, least = reach(shares, limits.confirm_confidence), limits.min_effect
    if effect > far and effect >= least:
        return Verdict.FAIL, Reason.SLOWER_THAN_HISTORY
    if effect + reach(shares, limits.confidence) >= limits.must_detect:
        return Verdict.INCONCLUSIVE, Reason.TOO_WIDE
    return Verdict.PASS, Reason.FASTER if effect < -max(far, least) else Reason.WITHIN_LIMIT


def _figures(shares: Floats, effect: float, limits: Limits) -> Figures:
    varies = len(shares) >= limits.min_history and bool(np.ptp(shares) > 0)
    far = reach(shares, limits.confidence) if varies else None
    scale = float(shares.std(ddof=1) * np.sqrt(1 + 1 / len(shares))) if varies else None
    return Figures(
        effect=effect, low=None if far is None else effect - far, high=None if far is None else effect + far,
        least_effect=max(reach(shares, limits.confirm_confidence), limits.min_effect) if varies else None,
        p_slower=None if scale is None else float(stdtr(len(shares) - 1, -effect / scale)), launches=len(shares),
        dropped_pairs=0, order_effect=None,
    )  # fmt: skip
