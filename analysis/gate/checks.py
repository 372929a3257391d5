"""Validity checks on measured blocks: each fault that makes them unfit for a verdict, and the verdict given instead."""

from __future__ import annotations

import numpy as np

from .effects import launch_effects
from .limits import Limits
from .pairs import Flags, Floats, PairBlocks
from .verdict import Reason, Verdict

Fault = tuple[Verdict, Reason]
_ROUNDING = 1e-9
"""Spread of log ratios below which one arm is a multiple of the other: real pairs differ by parts in a thousand."""
_LEAST_TICK = 1e-3
"""Share of a step's time: a clock with finer ticks is not called coarse, however small the effects to be found."""


def fault(blocks: PairBlocks, limits: Limits) -> Fault | None:
    """What forbids a judgement of `blocks`, or None. Nothing that is found here is ever a pass."""
    if not blocks.base.size:
        return Verdict.ERROR, Reason.NOT_MEASURED
    kept = ~blocks.dropped
    if not kept.any():
        return Verdict.INCONCLUSIVE, Reason.NO_VALID_PAIRS
    return _bad_values(blocks, kept) or _bad_machine(blocks, kept, limits)


def _bad_values(blocks: PairBlocks, kept: Flags) -> Fault | None:
    arms = [blocks.base[kept], blocks.head[kept]]
    scale = [] if blocks.reference is None else [blocks.reference[kept]]
    if not all(np.isfinite(values).all() for values in (*arms, *scale)):
        return Verdict.ERROR, Reason.NOT_FINITE
    if any((values <= 0).any() for values in (scale or arms)) or any((values < 0).any() for values in arms):
        return Verdict.ERROR, Reason.NOT_POSITIVE
    return None


def _bad_machine(blocks: PairBlocks, kept: Flags, limits: Limits) -> Fault | None:
    if _unbalanced(blocks.head_first):
        return Verdict.INCONCLUSIVE, Reason.ORDER_UNBALANCED
    if 1 - kept.mean() > limits.max_dropped_share:
        return Verdict.INCONCLUSIVE, Reason.TOO_MANY_DROPPED
    if _lifeless(blocks, kept, limits):
        return Verdict.INCONCLUSIVE, Reason.NO_VARIATION
    if _coarse(blocks, kept, limits):
        return Verdict.INCONCLUSIVE, Reason.COARSE_CLOCK
    whole = np.isfinite(launch_effects(blocks.differences, blocks.head_first)).sum()
    if whole < limits.min_launches:
        return Verdict.INCONCLUSIVE, Reason.TOO_FEW_LAUNCHES
    return None


def _unbalanced(head_first: Flags) -> bool:
    """A launch in which one arm leads by more than one pair: what drifts then falls on one arm."""
    second = head_first.shape[1] - head_first.sum(axis=1)
    return bool((np.abs(head_first.sum(axis=1) - second) > 1).any())


def _lifeless(blocks: PairBlocks, kept: Flags, limits: Limits) -> bool:
    """Values that no two measured arms have: an arm is constant, a multiple of the other, or zero throughout."""
    base, head = blocks.base[kept], blocks.head[kept]
    if blocks.reference is not None:
        there = np.median(base / blocks.reference[kept]) >= limits.min_effect
        return bool(there and not head.any())  # what the base has in its steps, and head never: was it measured?
    multiple = np.ptp(blocks.differences[kept]) < _ROUNDING
    return bool(multiple or _constant(base) or _constant(head))


def _coarse(blocks: PairBlocks, kept: Flags, limits: Limits) -> bool:
    """The same few values again and again, so far apart that the difference between neighbours is a regression."""
    values = np.concatenate([blocks.base[kept], blocks.head[kept]])
    values = values[values > 0]  # 0 is what nothing takes, whatever the clock
    levels = np.unique(values)
    if len(levels) < 2 or 2 * len(levels) > len(values):
        return False
    scale = values if blocks.reference is None else blocks.reference[kept]
    return bool(np.diff(levels).min() >= max(limits.min_effect, _LEAST_TICK) * np.median(scale))


def _constant(values: Floats) -> bool:
    """Real blocks differ; equal ones come from a clock that is too coarse, or from a copied number.

    What may be zero (a copy that is hidden in every step) may be zero everywhere.
    """
    return bool((values == values[0]).all())
