"""From scheduled counts to the flat token stream: boundaries, owners, offsets and positions (steps one and two of the
article's input preparation). Everything is written into arrays made once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .step_inputs import IntArray, LongArray


class FlatIndices(NamedTuple):
    """Views that hold until the next step. R requests, Q tokens.

    req_indices [Q] int32 token -> row; query_pos [Q] int32 offset in the chunk; positions [Q] int64;
    `uniform` is True when every request has exactly one token (then token t belongs to row t); `idle` when some
    request has none.
    """

    num_tokens: int
    req_indices: IntArray
    query_pos: IntArray
    positions: LongArray
    uniform: bool
    idle: bool


class FlatIndexBuilder:
    """Owns the flat arrays of one runner."""

    def __init__(self, row_capacity: int, token_capacity: int) -> None:
        span = max(row_capacity, token_capacity) + 1
        self._arange: IntArray = np.arange(span, dtype=np.int32)
        self._zeros: IntArray = np.zeros(span, dtype=np.int32)
        self._query_pos: IntArray = np.zeros(token_capacity, dtype=np.int32)

    def boundaries(self, num_scheduled: IntArray, query_start_loc: IntArray) -> int:
        """Fill `query_start_loc` with prefix sums; the tail behind the last request repeats Q. Returns Q.

        A tail that fell back (zeros, -1) would give padded requests a negative length.
        """
        num_reqs = num_scheduled.size
        query_start_loc[0] = 0
        np.add.accumulate(num_scheduled, out=query_start_loc[1 : num_reqs + 1])
        num_tokens = int(query_start_loc[num_reqs])
        query_start_loc[num_reqs + 1 :] = num_tokens
        return num_tokens

    def build(
        self, num_scheduled: IntArray, num_computed: IntArray, query_start_loc: IntArray, positions: LongArray
    ) -> FlatIndices:
        """Owners, offsets and positions of Q tokens; `positions` [>= Q] is written in place."""
        num_reqs = num_scheduled.size
        num_tokens = int(query_start_loc[num_reqs])
        flat = positions[:num_tokens]
        idle = int(np.count_nonzero(num_scheduled)) < num_reqs
        if num_tokens == num_reqs and not idle:
            flat[:] = num_computed
            owners, offsets = self._arange[:num_tokens], self._zeros[:num_tokens]
            return FlatIndices(num_tokens, owners, offsets, flat, uniform=True, idle=False)
        req_indices = self._arange[:num_reqs].repeat(num_scheduled)
        query_pos = self._query_pos[:num_tokens]
        np.subtract(self._arange[:num_tokens], query_start_loc.take(req_indices), out=query_pos)
        np.add(num_computed.take(req_indices), query_pos, out=flat)  # `take` costs less than indexing by int32
        return FlatIndices(num_tokens, req_indices, query_pos, flat, uniform=False, idle=idle)
