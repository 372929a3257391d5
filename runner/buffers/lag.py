"""Which rows of a table somebody has not got yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEW = 24
"""Rows that are faster walked one by one than looked for in a mask of all."""


class RowLag:
    """Rows written since they were last taken: a list while they are few, as in most steps, and a mask beyond that."""

    def __init__(self, rows: int) -> None:
        self._mask: npt.NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)  # all False while there is a list
        self._few: list[int] | None = []  # with repeats; None: see the mask
        self.any = False
        """Whether a row is behind at all."""

    def note(self, rows: list[int]) -> None:
        """The rows were written; for more than `FEW` at once use `note_many`."""
        self.any = True
        few = self._few
        if few is None:
            self._mask[rows] = True
        elif len(few) + len(rows) <= FEW:
            few += rows
        else:
            self._few = None
            self._mask[few + rows] = True

    def note_many(self, rows: npt.NDArray[np.intp]) -> None:
        """The same of any number of rows."""
        self.any = True
        if self._few is not None:
            self._mask[self._few] = True
            self._few = None
        self._mask[rows] = True

    def take(self, num_rows: int) -> list[int] | npt.NDArray[np.intp]:
        """The rows below `num_rows` that are behind, each once; from now on they are not."""
        few = self._few
        if few is None:
            return self._look(num_rows)
        self._few = [] if max(few, default=-1) < num_rows else [row for row in few if row >= num_rows]
        self.any = bool(self._few)
        return list({row for row in few if row < num_rows} if self.any else set(few))

    def _look(self, num_rows: int) -> npt.NDArray[np.intp]:
        mask = self._mask
        rows = np.flatnonzero(mask[:num_rows])
        mask[:num_rows] = False
        if not np.count_nonzero(mask[num_rows:]):
            self._few, self.any = [], False
        return rows
