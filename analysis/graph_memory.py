"""What captured graphs take of the device's memory: the estimate before, the measurement after, and where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from .tables import floats, texts

Flag = Literal["estimate_zero", "estimate_above_free", "ratio_out_of_range"]
LOWEST_RATIO, HIGHEST_RATIO = 0.5, 2.0
"""An estimate within a factor of two does its work: it leaves room for the graphs and not much more."""


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """All figures of the graphs of one runner, None where not measured.

    estimate_bytes  what was foreseen; measured_bytes is the fall of the device's free memory, KV pool allocated before
    per_size_bytes  measured_bytes over num_sizes
    ratio           estimate over measurement
    """

    num_sizes: int
    estimate_bytes: int | None
    measured_bytes: int | None
    per_size_bytes: float | None
    ratio: float | None
    flags: tuple[Flag, ...]


def judge_graph_memory(
    num_sizes: int, estimate_bytes: int | None, free_before_bytes: int | None, free_after_bytes: int | None
) -> GraphMemory:
    """Compare an estimate with the free memory before and after `num_sizes` captures.

    20.00 GiB free before and 18.75 after 10 sizes, estimate 0 -> 1.25 GiB measured, 128 MiB a size, estimate_zero.
    """
    measured = None
    if num_sizes and free_before_bytes is not None and free_after_bytes is not None:
        measured = free_before_bytes - free_after_bytes
    ratio = estimate_bytes / measured if estimate_bytes is not None and measured else None
    return GraphMemory(
        num_sizes=num_sizes,
        estimate_bytes=estimate_bytes,
        measured_bytes=measured,
        per_size_bytes=None if measured is None else measured / num_sizes,
        ratio=ratio,
        flags=tuple(_flags(num_sizes, estimate_bytes, free_before_bytes, ratio)),
    )


def _flags(num_sizes: int, estimate: int | None, free: int | None, ratio: float | None) -> Iterator[Flag]:
    """A zero is flagged as such and not a second time by its ratio."""
    if estimate is None or not num_sizes:
        return
    if estimate == 0:
        yield "estimate_zero"
    elif ratio is not None and not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        yield "ratio_out_of_range"
    if free is not None and estimate > free:
        yield "estimate_above_free"


def estimate_graph_memory(first_captures: Sequence[Sequence[int]], counts: Sequence[int]) -> int | None:
    """Bytes that all graphs will take, from the first captures of each mode and its number of graphs.

    Captured largest first into one pool, the first graph of a mode takes its activations and every further one about
    what the second took. None before anything was captured.
    """
    if not any(first_captures):
        return None
    total = 0
    for taken, count in zip(first_captures, counts, strict=True):
        if taken and count:
            total += taken[0] + (count - 1) * (taken[1] if len(taken) > 1 else 0)
    return max(total, 0)


def graph_memory(calibration: pd.DataFrame) -> GraphMemory | None:
    """The same from a recording's table `calibration`; None where no capture was measured.

    Reads rows `graph_memory` (one a size), `graph_memory_estimate`, `graph_free_before` and `graph_free_after`.
    """
    values, valid = floats(calibration, "value")
    found: dict[str, list[int]] = {}
    for name, value, ok in zip(texts(calibration, "name"), values, valid, strict=True):
        if ok and name is not None and name.startswith("graph_"):
            found.setdefault(name, []).append(round(float(value)))
    sizes = found.get("graph_memory", [])
    if not sizes:
        return None
    estimate, before, after = (
        found.get(name, [None])[0] for name in ("graph_memory_estimate", "graph_free_before", "graph_free_after")
    )
    return judge_graph_memory(len(sizes), estimate, before, after)
