"""Faults of blocks that are cut among ranks, and of what the ranks' results are put together by."""

from __future__ import annotations

import torch
from stepscope.runner.attention import sharded
from stepscope.runner.attention.sharded import ShardedMetadata
from stepscope.runner.inputs.sharded_slots import ShardedHostMapper, ShardedStandIn
from stepscope.runner.shards import Shard

from .arrangements import TWO
from .mutants_of_rows import change

DEALT = {"dcp_interleave": 2} | TWO


def everything_on_every_rank(patch):
    """A rank keeps the slots of the whole: all tokens have a place on it, and not the right one."""
    patch.setattr(ShardedStandIn, "_compute", ShardedStandIn.__mro__[1]._compute)


def one_rank_for_all(patch):
    """Each rank maps as if it were the first."""
    change(patch, ShardedHostMapper, "map", lambda right: lambda self, *rest: _as_first(self, right, rest))


def _as_first(mapper, right, rest):
    first = next(iter(mapper._shards))
    mapper._shards = _Repeated(first, mapper._shards.ranks)
    return right(mapper, *rest)


class _Repeated(list):
    def __init__(self, first, ranks):
        super().__init__([first] * ranks)
        self.ranks = ranks


def dealt_one_by_one(patch):
    """Slots are dealt token by token, whatever lies together."""
    change(patch, ShardedStandIn, "__init__", lambda right: lambda self, *operands: right(
        self, *operands[:-1], operands[-1]._replace(interleave=1)
    ))  # fmt: skip


def lengths_shared_evenly(patch):
    """Each rank's length is its share of the whole, rounded down: the last turn is nobody's."""
    patch.setattr(Shard, "lengths", lambda self, lengths: lengths // self.ranks)


def limits_of_the_first_rank(patch):
    """Queries of a chunk see as many keys on each rank as on the first."""
    change(patch, ShardedMetadata, "limits", lambda right: lambda self, rank: right(self, 0))


def ranks_weigh_the_same(patch):
    """The mean of what the ranks found, whatever they saw."""
    patch.setattr(sharded, "merge_ranks", lambda outs, sums: outs.mean(0))


def first_rank_alone(patch):
    """What the others found is dropped."""
    patch.setattr(sharded, "merge_ranks", lambda outs, sums: outs[0])


def last_rank_writes_nothing(patch):
    """Keys and values of one rank never come into its cache."""

    def make(right):
        def forgetful(self, shard):
            common = right(self, shard)
            if shard.rank == shard.ranks - 1:
                common = sharded.replace(common, slot_mapping=torch.full_like(common.slot_mapping, -1))
            return common

        return forgetful

    change(patch, ShardedMetadata, "_of_rank", make)


MUTANTS = [
    ("everything on every rank", everything_on_every_rank, DEALT, "slot_ownership"),
    ("one rank for all", one_rank_for_all, {"slot_mapping": "host"} | DEALT, "slot_ownership"),
    ("dealt one by one", dealt_one_by_one, DEALT, "slot_ownership"),
    ("lengths shared evenly", lengths_shared_evenly, DEALT, "text"),
    ("limits of the first rank", limits_of_the_first_rank, {"speculative": 3} | DEALT, "text"),
    ("ranks weigh the same", ranks_weigh_the_same, DEALT, "text"),
    ("first rank alone", first_rank_alone, DEALT, "text"),
    ("last rank writes nothing", last_rank_writes_nothing, DEALT, "text"),
]
