"""A new result judged against stored ones, for when both arms cannot run side by side. It promises less than the paired
gate.

How much results differ between sessions (another day, another node) is known only from the spread of the stored
results. So ten of them are needed, and a single number decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from .limits import Limits
from .pairs import Floats
from .point import Figures, PointVerdict
from .verdict import Reason, Verdict

_OTHER_SCALE = float(np.log(100))
"""No step became a hundred times faster, but nanoseconds are written as microseconds: that is no pass."""


@dataclass(frozen=True, slots=True)
class Result:
    """One stored run: its environment, and what it measured: (point, metric) -> value, None where it measured none.

    failures   point -> why it has no values, e.g. "oom"
    """

    machine: Mapping[str, object]
    values: Mapping[tuple[str, str], float | None]
    failures: Mapping[str, str]


def judge_history(point: str, metric: str, stored: Sequence[float | None], new: float | None,
                  limits: Limits) -> PointVerdict:  # fmt: skip
    """The verdict on `new` against `stored`, by the prediction interval of one more result (log scale).

    FAIL: above its one-sided `confirm_confidence` bound and slower by the floor. PASS: surely (`confidence`) not slower
    by `must_detect`. Else the history is too short or too noisy to say.
    """
    values = [value for value in stored if value is not None]
    bad = _bad([new]) or _bad(values or [None])
    if bad is not None:
        return PointVerdict(point, metric, Verdict.ERROR, bad)
    logs = np.log(np.asarray(values, dtype=np.float64))
    effect = float(np.log(np.float64(new)) - logs.mean())
    figures = _figures(logs, effect, limits)
    verdict, reason = _verdict(len(logs), logs, effect, limits)
    return PointVerdict(point, metric, verdict, reason, stage=1, figures=figures)


def _bad(values: Sequence[float | None]) -> Reason | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Reason.NOT_MEASURED
    if not all(math.isfinite(value) for value in known):  # whole numbers of any size, too
        return Reason.NOT_FINITE
    return Reason.NOT_POSITIVE if min(known) <= 0 else None


def _verdict(count: int, logs: Floats, effect: float, limits: Limits) -> tuple[Verdict, Reason]:
    if count < limits.min_history:
        return Verdict.INCONCLUSIVE, Reason.SINGLE_NUMBER if count == 1 else Reason.SHORT_HISTORY
    if not np.ptp(logs) > 0:
        return Verdict.INCONCLUSIVE, Reason.NO_VARIATION
    if effect < -_OTHER_SCALE:
        return Verdict.INCOMPARABLE, Reason.OTHER_SCALE
    far, least = reach(logs, limits.confirm_confidence), np.log1p(limits.min_effect)
    if effect > far and effect >= least:
        return Verdict.FAIL, Reason.SLOWER_THAN_HISTORY
    if effect + reach(logs, limits.confidence) >= np.log1p(limits.must_detect):
        return Verdict.INCONCLUSIVE, Reason.TOO_WIDE
    return Verdict.PASS, Reason.FASTER if effect < -max(far, least) else Reason.WITHIN_LIMIT


def reach(logs: Floats, confidence: float) -> float:
    """Upper bound, at `confidence`, of how far one more result of the same kind lies above the mean of `logs`."""
    count = len(logs)
    return float(stdtrit(count - 1, confidence)) * float(logs.std(ddof=1)) * float(np.sqrt(1 + 1 / count))


def _figures(logs: Floats, effect: float, limits: Limits) -> Figures:
    known = len(logs) >= limits.min_history and np.ptp(logs) > 0
    far = reach(logs, limits.confidence) if known else None
    scale = float(logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))) if known else None
    return Figures(
        effect=float(np.expm1(effect)), low=None if far is None else float(np.expm1(effect - far)),
        high=None if far is None else float(np.expm1(effect + far)),
        least_effect=_least(logs, limits) if known else None,
        p_slower=None if scale is None else float(stdtr(len(logs) - 1, -effect / scale)),
        launches=len(logs), dropped_pairs=0, order_effect=None,
    )  # fmt: skip


def _least(logs: Floats, limits: Limits) -> float:
    return float(np.expm1(max(reach(logs, limits.confirm_confidence), np.log1p(limits.min_effect))))
