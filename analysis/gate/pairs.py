"""Pairs of blocks of two resident arms: what the gate's statistics are made of.

    launch 0    A B | B A | A B | ...     a block is >= 50 steps or >= 1 s, its figure the median of its steps
    launch 1    A B | B A | A B | ...     a pair is two neighbours, one of each arm
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import UsageError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""NVML clock-event reasons that spoil a block: power cap, slowdown by hardware, by heat (software, hardware), by the
power brake. Idle and application-clock settings do not."""


@dataclass(frozen=True, slots=True)
class PairBlocks:
    """One metric of one point, launches x pairs; both arms of a pair stand at the same place.

    base, head   [launches, pairs] the blocks' figures, positive; not-a-number where a block gave none
    head_first   [launches, pairs] whether head's block came first in time
    dropped      [launches, pairs] pairs that the telemetry spoiled, both arms at once
    reference    [launches, pairs] of a metric that may be zero: the step period of the pair, its differences' yardstick
    """

    base: Floats
    head: Floats
    head_first: Flags
    dropped: Flags
    reference: Floats | None = None

    def __post_init__(self) -> None:
        shapes = {array.shape for array in (self.base, self.head, self.head_first, self.dropped)}
        if self.reference is not None:
            shapes.add(self.reference.shape)
        if len(shapes) != 1 or self.base.ndim != 2:
            raise UsageError(f"gate: the arms' blocks have shapes {sorted(shapes)}; give one [launches, pairs] of all")

    @property
    def differences(self) -> Floats:
        """[launches, pairs] log(head / base), or (head - base) / reference; dropped pairs are not-a-number."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.reference is None:
                values = np.log(self.head / self.base)
            else:
                values = (self.head - self.base) / self.reference
        return np.where(self.dropped, np.nan, values)
