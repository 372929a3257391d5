"""What a list of sizes gains over another on steps that it was not chosen by, with an interval.

Steps that follow one another are alike, so they are no independent samples: the interval is Student's over the means
of `BATCHES` stretches of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..blocks import over_launches
from ..tables import LongArray
from .costs import SizesCosts
from .stream import SizesStream

BATCHES = 20


@dataclass(frozen=True, slots=True)
class SizesArm:
    """One list on one stream.

    step_mean_ns  T of a step: without attention, but for what that takes longer in a larger graph
    padded_share  padding as a share of the tokens of replayed steps; None where none was replayed
    eager_steps   steps above the largest size
    """

    name: str
    sizes: tuple[int, ...]
    step_mean_ns: float
    padded_share: float | None
    eager_steps: int


@dataclass(frozen=True, slots=True)
class SizesGain:
    """What an arm saves a step against a baseline, in ns; negative where it loses.

    low, high  95 %; None with fewer than two batches
    share      of the baseline's step_mean_ns
    """

    baseline: str
    mean_ns: float
    low_ns: float | None
    high_ns: float | None
    share: float
    steps: int


def judge_arm(name: str, sizes: Sequence[int], stream: SizesStream, costs: SizesCosts) -> SizesArm:
    """One list on a stream of at least one step."""
    captured = np.asarray(sizes, dtype=np.int64)
    at = np.searchsorted(captured, stream.tokens, side="left")
    replayed = at < len(captured)
    padded = int(captured[at[replayed]].sum()) if len(captured) else 0
    real = int(stream.tokens[replayed].sum())
    return SizesArm(
        name=name, sizes=tuple(sizes), step_mean_ns=float(costs.step_ns(sizes, stream.tokens).mean()),
        padded_share=(padded - real) / padded if padded else None, eager_steps=int((~replayed).sum()),
    )  # fmt: skip


def predicted_gain(arm: SizesArm, baseline: SizesArm, stream: SizesStream, costs: SizesCosts) -> SizesGain:
    """The gain by the curves, on a stream of at least one step."""
    saved = costs.step_ns(baseline.sizes, stream.tokens) - costs.step_ns(arm.sizes, stream.tokens)
    return gain_of(baseline.name, saved, baseline.step_mean_ns)


def gain_of(baseline: str, saved_ns: LongArray, baseline_ns: float) -> SizesGain:
    """The gain of saved times, one a step, in the order of the steps."""
    batches = [float(part.mean()) for part in np.array_split(saved_ns, min(BATCHES, len(saved_ns)))]
    interval = over_launches(batches)
    assert interval is not None, "no steps to judge on"
    mean = float(saved_ns.mean())
    return SizesGain(baseline, mean, interval.low, interval.high, mean / baseline_ns, len(saved_ns))
