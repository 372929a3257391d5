"""Per-row storage of the input batch. A row number is the common key of all columns, so each column knows the same
three verbs (clear, move, swap) and the batch applies a verb to every column that it was declared with.

Swaps go through copies: `a[i], a[j] = a[j], a[i]` on rows of an array swaps views and leaves both rows equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

T = TypeVar("T")
Numbers = Sequence[int] | npt.NDArray[Any]
"""What a row is written from; `array` is a Sequence by its looks only, and fits."""


class RowColumn(Protocol):
    """What one column does when rows of the batch change."""

    def clear(self, row: int) -> None:
        """Forget the row's value."""
        ...

    def move(self, source: int, target: int) -> None:
        """Put the value of `source` into `target`, which nobody owns, and forget it at `source`."""
        ...

    def swap(self, first: int, second: int) -> None:
        """Exchange the values of two rows."""
        ...


class ScalarColumn:
    """One number a row: `values` [rows]."""

    def __init__(self, rows: int, dtype: npt.DTypeLike, empty: float = 0) -> None:
        self.values: npt.NDArray[Any] = np.full(rows, empty, dtype=dtype)
        self._empty = empty

    def clear(self, row: int) -> None:
        """Set the row to the column's empty value."""
        self.values[row] = self._empty

    def move(self, source: int, target: int) -> None:
        """Copy one number."""
        self.values[target] = self.values[source]
        self.values[source] = self._empty

    def swap(self, first: int, second: int) -> None:
        """Exchange two numbers."""
        self.values[[first, second]] = self.values[[second, first]]


class ObjectColumn(Generic[T]):
    """One object a row, None where nobody lives: `values` of length `rows`."""

    def __init__(self, rows: int) -> None:
        self.values: list[T | None] = [None] * rows

    def clear(self, row: int) -> None:
        """Drop the reference."""
        self.values[row] = None

    def move(self, source: int, target: int) -> None:
        """Hand the reference over."""
        self.values[target] = self.values[source]
        self.values[source] = None

    def swap(self, first: int, second: int) -> None:
        """Exchange the references."""
        self.values[first], self.values[second] = self.values[second], self.values[first]


class PrefixColumn:
    """A row of up to `width` numbers of which the first `lengths[row]` count: `values` [rows, width].

    Only the live prefix is copied, for a row may be 131,072 wide and 100 long. What lies behind the prefix is always
    zero: a longer row's tail is reset when a shorter one takes its place, so a reader of the full width meets nothing
    of somebody else's. `memory` [rows, width] zeroed is used where it is given; ordinary memory is meant, for rows x
    width is much to lock.
    """

    def __init__(self, rows: int, width: int, dtype: torch.dtype, memory: torch.Tensor | None = None) -> None:
        self.tensor = torch.zeros((rows, width), dtype=dtype) if memory is None else memory
        self.values: npt.NDArray[Any] = self.tensor.numpy()
        self.flat: npt.NDArray[Any] = self.values.reshape(-1)
        self.lengths: npt.NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        self.width = width

    def write(self, row: int, *pieces: Numbers) -> None:
        """Make the row the concatenation of `pieces`."""
        used = 0
        for piece in pieces:
            count = len(piece)
            if count:
                self.values[row, used : used + count] = piece
                used += count
        self._set_length(row, used)

    def shorten(self, row: int, count: int) -> None:
        """Take the last `count` numbers off the row."""
        self._set_length(row, int(self.lengths[row]) - count)

    def clear(self, row: int) -> None:
        """Zero the live prefix."""
        self._set_length(row, 0)

    def move(self, source: int, target: int) -> None:
        """Copy the live prefix of `source`; reset the rest of `target` and all of `source`."""
        used = int(self.lengths[source])
        self.values[target, :used] = self.values[source, :used]
        self._set_length(target, used)
        self._set_length(source, 0)

    def swap(self, first: int, second: int) -> None:
        """Exchange the live prefixes; the longer row's tail does not stay behind."""
        lengths = self.lengths
        span = int(max(lengths[first], lengths[second]))
        kept = self.values[first, :span].copy()
        self.values[first, :span] = self.values[second, :span]  # brings the zeros behind the shorter prefix along
        self.values[second, :span] = kept
        lengths[first], lengths[second] = int(lengths[second]), int(lengths[first])

    def _set_length(self, row: int, length: int) -> None:
        stale = int(self.lengths[row])
        if stale > length:
            self.values[row, length:stale] = 0
        self.lengths[row] = length


class MaskColumn:
    """A row of booleans as wide as the vocabulary, allocated when the first row needs it; most workloads never do.

    `values` [rows, width] or None; True forbids the token.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._used: set[int] = set()
        self.values: npt.NDArray[np.bool_] | None = None

    @property
    def in_use(self) -> bool:
        """Whether any row carries a mask now."""
        return bool(self._used)

    def allow_only(self, row: int, token_ids: npt.ArrayLike, width: int) -> None:
        """Forbid every token of a vocabulary of `width` except `token_ids`."""
        if self.values is None:
            self.values = np.zeros((self._rows, width), dtype=np.bool_)
        self.values[row] = True
        self.values[row, np.asarray(token_ids)] = False
        self._used.add(row)

    def clear(self, row: int) -> None:
        """Allow everything."""
        if row in self._used and self.values is not None:
            self.values[row] = False
            self._used.discard(row)

    def move(self, source: int, target: int) -> None:
        """Copy the mask and lift it at `source`."""
        self.swap(source, target)
        self.clear(source)

    def swap(self, first: int, second: int) -> None:
        """Exchange two masks."""
        if self.values is None or not self._used & {first, second}:
            return
        self.values[[first, second]] = self.values[[second, first]]
        renamed = {first: second, second: first}
        self._used = {renamed.get(row, row) for row in self._used}
