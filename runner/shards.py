"""Decode context parallelism: which rank holds which token of a block, how long a sequence is for a rank.

A block holds block_size tokens on each rank, so a sequence takes as many fewer of them as there are ranks. Within it
`interleave` tokens in a row lie on one rank, the next ones on the next rank, round and round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

Integers = TypeVar("Integers", npt.NDArray[np.int64], npt.NDArray[np.int32], torch.Tensor)
NO_SLOT, TWO_SLOTS = -1, -2


class Shard(NamedTuple):
    """What one of the ranks holds.

    A slot of the whole is block * (block_size * ranks) + offset, one of a rank block * block_size + its own offset.
    That a block is a whole number of rounds (the configuration sees to it) makes one a function of the other.
    """

    rank: int
    ranks: int
    interleave: int

    @property
    def round(self) -> int:
        """Tokens until it is the same rank's turn again."""
        return self.ranks * self.interleave

    def slots(self, whole: Integers) -> Integers:
        """64-bit slots of the whole -> the rank's, NO_SLOT for what another one holds and for what has none."""
        own = whole // self.round * self.interleave + whole % self.interleave
        own[(whole < 0) | (whole // self.interleave % self.ranks != self.rank)] = NO_SLOT
        return own

    def lengths(self, lengths: Integers) -> Integers:
        """How many of the first `lengths` tokens of a sequence lie on the rank."""
        rest: Any = lengths % self.round - self.rank * self.interleave
        held: Integers = lengths // self.round * self.interleave + rest.clip(0, self.interleave)
        return held


@dataclass(frozen=True, slots=True)
class Shards:
    """How blocks are cut; one rank holds them whole."""

    ranks: int = 1
    interleave: int = 1

    def __iter__(self) -> Iterator[Shard]:
        return (Shard(rank, self.ranks, self.interleave) for rank in range(self.ranks))

    def whole(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[ranks, T] slots of the ranks (with one rank [T]) -> [T] of the whole; TWO_SLOTS where two ranks have one."""
        if self.ranks == 1:
            return slots
        rank = np.arange(self.ranks)[:, None]
        named = (slots // self.interleave * self.ranks + rank) * self.interleave + slots % self.interleave
        held = slots >= 0
        found: npt.NDArray[np.int64] = np.where(held, named, NO_SLOT).max(axis=0)
        found[held.sum(axis=0) > 1] = TWO_SLOTS
        return found


WHOLE = Shards()
