"""Which rank holds which token, against tokens that are dealt out one by one; and that one rank asks nobody."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from stepscope.errors import BrokenInvariant
from stepscope.runner.shards import NO_SLOT, TWO_SLOTS, Shard, Shards
from stepscope.workloads.step import CachedRequests

from .slot_steps import dealt

WORLDS = [(1, 1, 4), (2, 1, 4), (2, 2, 4), (3, 4, 8), (4, 2, 2), (5, 3, 9)]


@pytest.mark.parametrize(("ranks", "interleave", "block_size"), WORLDS)
def test_every_slot_is_one_ranks(ranks, interleave, block_size):
    # GIVEN the slots of three blocks, and some that are none
    places, shards = dealt(block_size, ranks, interleave), Shards(ranks, interleave)
    whole = np.append(np.arange(3 * len(places)), [-1, -1])
    # WHEN ranks take theirs, THEN each is where it was dealt
    own = np.stack([shard.slots(whole) for shard in shards])
    for slot in whole[:-2].tolist():
        block, offset = divmod(slot, len(places))
        rank, place = places[offset]
        wanted = [block * block_size + place if each == rank else NO_SLOT for each in range(ranks)]
        assert own[:, slot].tolist() == wanted
    # AND together they are the whole
    assert shards.whole(own if ranks > 1 else own[0]).tolist() == whole.tolist()


@pytest.mark.parametrize(("ranks", "interleave", "block_size"), WORLDS)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_lengths_are_what_was_dealt(ranks, interleave, block_size, kind):
    places = dealt(block_size, ranks, interleave) * 3
    lengths = range(len(places) + 1)
    for shard in Shards(ranks, interleave):
        wanted = [sum(rank == shard.rank for rank, _ in places[:length]) for length in lengths]
        assert shard.lengths(kind(list(lengths))).tolist() == wanted


def test_two_ranks_with_one_token_are_told():
    # GIVEN two ranks that deal two at a time: token 0 and 1 are the first one's, 2 and 3 the second one's
    both = np.asarray([[0, 1, 0, -1], [-1, 1, 0, 1]])
    assert Shards(2, 2).whole(both).tolist() == [0, TWO_SLOTS, TWO_SLOTS, 3]


def test_local_lengths_oracle(runner_oracle):
    for case in runner_oracle("dcp_local_seq_lens"):
        given = case["in"]
        shard = Shard(given["rank"], given["dcp_size"], given["interleave"])
        assert shard.lengths(np.asarray(given["seq_lens"], dtype=np.int32)).tolist() == case["out"]


def test_checks_name_a_token_that_lies_on_two_ranks(tiny_runner, monkeypatch):
    # GIVEN ranks that both keep the token at position 2
    right = Shard.slots

    def greedy(self, whole):
        own = right(self, whole)
        own[2:3] = 5
        return own

    monkeypatch.setattr(Shard, "slots", greedy)
    tiny = tiny_runner(dcp=2)
    with pytest.raises(BrokenInvariant, match="slot_ownership broken in step 0: token 2 of 'a' lies on two ranks"):
        tiny.run({"a": 5}, new=[tiny.new("a", range(5), range(1, 5))])


def test_a_step_of_one_rank_makes_no_call_for_ranks(tiny_runner):
    def files_of(**switches):
        """Where a decode's calls go, whichever way slots are mapped."""
        tiny, files = tiny_runner(check="off", **switches), set()
        tiny.run({"a": 5}, new=[tiny.new("a", range(5), range(1, 5))])
        sys.setprofile(lambda frame, event, _: files.add(Path(frame.f_code.co_filename).name))
        try:
            tiny.run({"a": 1}, cached=CachedRequests(("a",), (None,), (5,), (1,)))
        finally:
            sys.setprofile(None)
        return files

    ours = {"shards.py", "sharded_slots.py", "sharded.py"}
    for mapping in ("triton", "torch", "host"):
        assert not files_of(slot_mapping=mapping) & ours
        assert files_of(slot_mapping=mapping, dcp=2) >= ours
