"""Step three: from the two-dimensional token history to the input ids of this step's chunk."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from ...errors import UsageError
from ..config import TokenGather
from ..state.input_batch import InputBatch
from .flat_indices import FlatIndices
from .step_inputs import IntArray, LongArray


class Gather(Protocol):
    """Fills `input_ids` [>= Q] on the host from the batch's histories."""

    def fill(self, batch: InputBatch, flat: FlatIndices, input_ids: IntArray) -> None:
        """Write the first Q entries."""
        ...


class IndexSelectGather:
    """One indexed selection over the flattened table: index = row * max_model_len + position.

    NumPy's `take` into the buffer, not torch's `index_select`: the same selection, without making three tensors for it.
    """

    def __init__(self, row_capacity: int, token_capacity: int, max_model_len: int) -> None:
        self._row_base: LongArray = np.arange(row_capacity + 1, dtype=np.int64) * max_model_len
        self._index: LongArray = np.zeros(token_capacity, dtype=np.int64)

    def fill(self, batch: InputBatch, flat: FlatIndices, input_ids: IntArray) -> None:
        """Write the first Q entries; 64-bit indices, for rows * max_model_len passes 2^31."""
        index = self._index[: flat.num_tokens]
        base = self._row_base
        bases = base[batch.rows] if flat.uniform else base.take(batch.columns_of(flat.req_indices))
        np.add(bases, flat.positions, out=index)
        # mode "clip" writes straight into `out`; the default would go through a copy
        batch.token_ids.flat.take(index, out=input_ids[: flat.num_tokens], mode="clip")


class CatGather:
    """One slice a request, concatenated: what the article warns of, kept to measure the warning."""

    def fill(self, batch: InputBatch, flat: FlatIndices, input_ids: IntArray) -> None:
        """Write the first Q entries."""
        if flat.num_tokens == 0:
            return
        members, starts, counts = np.unique(flat.req_indices, return_index=True, return_counts=True)
        rows = batch.columns_of(members)
        pieces = []
        for row, start, count in zip(rows.tolist(), starts.tolist(), counts.tolist(), strict=True):
            first = int(flat.positions[start])
            pieces.append(batch.token_ids.tensor[row, first : first + count])
        torch.cat(pieces, out=torch.from_numpy(input_ids[: flat.num_tokens]))


def make_gather(kind: TokenGather, row_capacity: int, token_capacity: int, max_model_len: int) -> Gather:
    """The strategy named by the switch `token_gather`."""
    if kind == "index_select":
        return IndexSelectGather(row_capacity, token_capacity, max_model_len)
    if kind == "cat":
        return CatGather()
    raise UsageError(f"token_gather: unknown value {kind!r}; known are index_select, cat")
