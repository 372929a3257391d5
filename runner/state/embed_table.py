"""The naive home of prompt embeddings: a place on the host for every position of every row, whoever needs it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...workloads.step import PromptEmbeds


class EmbedTable:
    """A column of the batch: `values` [rows, width, hidden] float32, `given` [rows, width] bool, True where a position
    has an embedding; what stands elsewhere is nobody's.

    Of a row the first `lengths[row]` positions are in use: they travel when it moves, hidden numbers each.
    """

    def __init__(self, rows: int, width: int, hidden: int) -> None:
        self.values: npt.NDArray[np.float32] = np.zeros((rows, width, hidden), dtype=np.float32)
        self.given: npt.NDArray[np.bool_] = np.zeros((rows, width), dtype=np.bool_)
        self.lengths = [0] * rows

    def write(self, row: int, embeds: PromptEmbeds) -> None:
        """Spread what a request brings over its row."""
        self.values[row, embeds.positions] = embeds.values
        self.given[row, embeds.positions] = True
        self.lengths[row] = embeds.end

    def clear(self, row: int) -> None:
        """Nothing is given any more."""
        self.given[row, : self.lengths[row]] = False
        self.lengths[row] = 0

    def move(self, source: int, target: int) -> None:
        """Copy the positions in use."""
        self.clear(target)
        used = self.lengths[source]
        if used:
            self.values[target, :used] = self.values[source, :used]
            self.given[target, :used] = self.given[source, :used]
            self.lengths[target] = used
            self.clear(source)

    def swap(self, first: int, second: int) -> None:
        """Exchange the positions in use."""
        span = max(self.lengths[first], self.lengths[second])
        if not span:
            return
        for column in (self.values, self.given):
            kept = column[first, :span].copy()
            column[first, :span] = column[second, :span]
            column[second, :span] = kept
        self.lengths[first], self.lengths[second] = self.lengths[second], self.lengths[first]
