"""All launches of a stage, put in order: pairs [launches, pairs] of every metric of every point, counts by launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...analysis.gate.block_counts import Count
from ...analysis.gate.block_values import OF_THE_STEP, step_time
from ...analysis.gate.conditions import spoiled_by
from ...analysis.gate.pairs import Floats, PairBlocks
from ...analysis.gate.verdict import Reason
from .launch import ARMS, Launch, PointLaunch


@dataclass(frozen=True, slots=True)
class Series:
    """Of one point, the launches that measured it, in order. Where one failed there is none: see `failures`."""

    launches: tuple[PointLaunch, ...]

    @property
    def failures(self) -> dict[str, str]:
        """arm -> why; of the first launch that failed."""
        return dict(next((one.failures for one in self.launches if one.failures), {}))

    @property
    def refused(self) -> tuple[Reason, str] | None:
        """Why the arms must not be compared."""
        return next((one.refused for one in self.launches if one.refused is not None), None)

    @property
    def drops(self) -> list[str | None]:
        """Of every pair, why it was dropped, or None."""
        return [
            spoiled_by(base, head) for one in self.launches
            for base, head in zip(one.conditions["base"], one.conditions["head"], strict=True)
        ]  # fmt: skip

    def metrics(self, arm: str) -> dict[str, None]:
        """Timed metrics that any launch of `arm` has."""
        return dict.fromkeys(metric for one in self.launches for metric in one.values[arm].timed)

    def blocks(self, arm: str, metric: str) -> Floats:
        """[launches, pairs] of a timed metric; not-a-number where it was not measured."""
        missing = np.full(len(self.launches[0].head_first), np.nan)
        return np.array([one.values[arm].timed.get(metric, missing) for one in self.launches])

    def pairs(self, metric: str) -> PairBlocks:
        """Both arms' blocks of a timed metric."""
        base, head = (self.blocks(arm, metric) for arm in ARMS)
        head_first = np.array([one.head_first for one in self.launches], dtype=np.bool_)
        dropped = np.array([reason is not None for reason in self.drops]).reshape(base.shape)
        reference = None
        if metric in OF_THE_STEP:
            whole = step_time(self.metrics("base"))
            reference = (self.blocks("base", whole) + self.blocks("head", whole)) / 2
        return PairBlocks(base, head, head_first, dropped, reference)

    def counts(self, metric: str) -> dict[str, list[Count | None]]:
        """arm -> an exact metric's value in each launch."""
        return {arm: [one.values[arm].counted.get(metric) for one in self.launches] for arm in ARMS}

    def ranges_by_launch(self, arm: str) -> dict[str, Floats]:
        """Host sub-range -> [launches] median over the blocks, ns; those that every launch has."""
        return _by_launch([one.values[arm].ranges for one in self.launches])

    def timed_by_launch(self, arm: str) -> dict[str, Floats]:
        """The same of every timed metric."""
        return _by_launch([one.values[arm].timed for one in self.launches])


def _by_launch(launches: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    names = [name for name in launches[0] if all(name in one for one in launches)] if launches else []
    return {name: np.array([np.nanmedian(one[name]) for one in launches]) for name in names}


def series_of(launches: Sequence[Launch], names: Sequence[str]) -> dict[str, Series]:
    """Point -> its launches."""
    return {name: Series(tuple(one[name] for one in launches if name in one)) for name in names}
