"""The order of rows that attention backends like: decodes, short extends, long extends, prefills; with few swaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import StepDelta
from ..config import Reorder
from .input_batch import InputBatch

Ints = npt.NDArray[np.integer]
DECODE, SHORT_EXTEND, LONG_EXTEND, PREFILL = range(4)


class RowOrder(Protocol):
    """Called when rows are packed and before anything is derived from them. Returns whether rows moved."""

    def apply(self, batch: InputBatch, delta: StepDelta) -> bool:
        """Bring the rows of the step into order."""
        ...


class AsTheyAre:
    """Rows stay where arrivals, holes and condensing put them."""

    def apply(self, batch: InputBatch, delta: StepDelta) -> bool:
        """Nothing."""
        return False


class DecodeFirst:
    """Rows by region; within a region who is already there stays. `decode_query_len`: tokens that a decode may have."""

    def __init__(self, decode_query_len: int) -> None:
        self._decode_query_len = decode_query_len

    def apply(self, batch: InputBatch, delta: StepDelta) -> bool:
        """Swap whole rows, each with all its columns, until every region is in one piece."""
        rows = batch.num_reqs
        ids = map(str, batch.id_column.values[:rows])  # all are live by now
        scheduled = np.fromiter(map(delta.num_scheduled_tokens.__getitem__, ids), dtype=np.int32, count=rows)
        places = regions(scheduled, batch.num_computed[:rows], batch.num_prompt[:rows], self._decode_query_len)
        moved = False
        for first, second in swaps(sources(places)):
            batch.swap_rows(first, second)
            moved = True
        return moved


def regions(num_scheduled: Ints, num_computed: Ints, num_prompt: Ints, decode_query_len: int) -> npt.NDArray[np.int8]:
    """[R] the region of each row. By the request's state: one token of a prompt is no decode.

    decode        up to `decode_query_len` tokens behind the whole prompt
    short extend  as few, inside a prompt that has a context already;  long extend  more, with a context
    prefill       no context at all
    """
    few, context = num_scheduled <= decode_query_len, num_computed > 0
    extend = np.where(few, np.where(num_computed >= num_prompt, DECODE, SHORT_EXTEND), LONG_EXTEND)
    return np.where(context, extend, PREFILL).astype(np.int8)


def sources(places: npt.NDArray[np.int8]) -> dict[int, int]:
    """Which row each misplaced row's place gets: place -> row that belongs there. Rows in their region stay.

    Places are filled in the order of regions, from the misplaced rows in their present order.
    """
    target = np.sort(places)
    misplaced = np.flatnonzero(places != target)
    wanted = misplaced[np.argsort(places[misplaced], kind="stable")]
    return dict(zip(misplaced.tolist(), wanted.tolist(), strict=True))


def swaps(source_of: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The pairs to swap, one after the other: a cycle of n rows takes n - 1 swaps."""
    left = dict(source_of)
    while left:
        place, source = left.popitem()
        while source in left:
            yield place, source
            place, source = source, left.pop(source)


def make_order(switch: Reorder, decode_query_len: int) -> RowOrder:
    """The strategy behind the switch `reorder`."""
    if switch == "off":
        return AsTheyAre()
    if switch != "decode_first":
        raise UsageError(f"reorder: unknown value {switch!r}; known are off, decode_first")
    return DecodeFirst(decode_query_len)
