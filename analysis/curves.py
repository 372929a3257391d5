"""Measured curves T(size) out of the table `calibration`: staircases, never interpolated across a stair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .tables import BoolArray, LongArray, Table, columns_of


@dataclass(frozen=True, slots=True)
class Curve:
    """T at measured sizes, ascending. `kernels` are hashes of the kernels' names, None where not recorded."""

    sizes: LongArray
    time_ns: LongArray
    kernels: tuple[str | None, ...]

    def place(self, wanted: LongArray) -> tuple[LongArray, BoolArray]:
        """Position of the next measured size >= each wanted one, and whether there is one.

        That is the rule of the calibration file: kernels are chosen by tile, so between two stairs the cost is that of
        the upper one. Nothing above the largest measured size is guessed.
        """
        at = np.searchsorted(self.sizes, wanted, side="left")
        return np.minimum(at, len(self.sizes) - 1), at < len(self.sizes)

    def pooled(self, *, within_kernels: bool) -> Curve:
        """T without what looks like a fall: isotonic regression (pool adjacent violators), each size weighing the same.

        within_kernels  among neighbours of the same kernels only: there T cannot fall with the size, and what falls is
                        the luck of where each graph's memory lay. Sizes whose kernels are not known stay as they are.
                        False: over all sizes
        Of pooled sizes each is 1 ns above the one before: where nothing else tells them apart the smaller is better.
        """
        groups = [0]
        for before, kernels in pairwise(self.kernels):
            groups.append(groups[-1] + (within_kernels and (kernels is None or kernels != before)))
        times = [_isotonic(self.time_ns[np.array(groups) == group]) for group in range(groups[-1] + 1)]
        return replace(self, time_ns=np.concatenate(times))

    def envelope_ns(self) -> LongArray:
        """Lower monotone envelope: at each measured size the least T of it and of all larger ones.

        What the best choice of a captured size that holds the work would cost; T itself need not be monotone.
        """
        lowest: LongArray = np.minimum.accumulate(self.time_ns[::-1])[::-1]
        return lowest


def _isotonic(times_ns: LongArray) -> LongArray:
    """Means of pools, ascending; within a pool 1 ns more from size to size."""
    pools: list[tuple[float, int]] = []
    for time_ns in times_ns.tolist():
        pools.append((time_ns, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (mean, count), (left, before) = pools.pop(), pools.pop()
            pools.append(((mean * count + left * before) / (count + before), count + before))
    pooled = [np.full(count, round(mean), dtype=np.int64) + np.arange(count) for mean, count in pools]
    return np.concatenate(pooled) if pooled else times_ns


def curve(calibration: Table, name: str) -> tuple[Curve | None, str | None]:
    """The curve `name` (`graph_ns`, `eager_span_ns`), or None and the reason.

    Rows have the key `<model>/<size>` or `<size>`; rows of several models in one table are not told apart by guessing.
    """
    rows = columns_of(calibration)
    rows = rows[rows.matches("name", name)]
    value, valid = rows.floats("value")
    found: dict[int, tuple[int, str | None]] = {}
    models = set()
    for key, time_ns, ok, kernels in zip(rows.texts("key"), value, valid, rows.texts("kernel_hash"), strict=True):
        model, _, size = (key or "").rpartition("/")
        if ok and size.isdecimal():
            models.add(model)
            found[int(size)] = (round(float(time_ns)), kernels)
    if not found:
        return None, f"no curve {name} in the table calibration"
    if len(models) > 1:
        return None, f"curves {name} of several models in the table calibration: {', '.join(sorted(models))}"
    sizes = sorted(found)
    times = np.array([found[size][0] for size in sizes], dtype=np.int64)
    return Curve(np.array(sizes, dtype=np.int64), times, tuple(found[size][1] for size in sizes)), None
