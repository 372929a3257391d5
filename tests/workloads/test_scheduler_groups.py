"""Several KV cache groups in the scheduler: vLLM's recorded hybrid stream, and windows worked out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.workloads.requests import PrefixHashes, Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.scheduler.block_pool import BlockPool
from stepscope.workloads.scheduler.group_cache import GroupCache
from stepscope.workloads.scheduler.groups import GroupSpec, parse_group, parse_groups
from stepscope.workloads.step import StepDelta

HYBRID = ("full", "window=128", "window=1024")


def travelling(delta: StepDelta) -> dict[str, list[list[int]]]:
    blocks = {new.req_id: [list(ids) for ids in new.block_ids] for new in delta.new_requests}
    for name, ids in zip(delta.cached.req_ids, delta.cached.new_block_ids, strict=True):
        if ids is not None:
            blocks[name] = [list(group) for group in ids]
    return blocks


def test_vllms_hybrid_stream(shared: Path, rig) -> None:
    # GIVEN 16 requests that share a prefix of 2048 tokens, in a full group and two windowed ones
    name = "v1_hybrid_full_swa128_swa1024.jsonl.gz"
    with gzip.open(shared / "oracles" / "sched_golden" / name, "rt") as file:
        rows = [json.loads(line) for line in file][1:]
    served = rig(kv_groups=HYBRID, num_blocks=20_000, max_num_seqs=128)
    lengths = {new["id"]: new["prompt_len"] for row in rows for new in row["new"]}
    for index, (req_id, length) in enumerate(lengths.items()):
        served.add(Request(req_id, length, 64, 997, prefix=PrefixHashes(2048, (0, 1 + index))))
    # WHEN, THEN every step gives every request the same blocks in every group
    for row in rows:
        delta = served.step()
        want = {new["id"]: new["blocks"] for new in row["new"]}
        want |= {known["id"]: known["new_blocks"] for known in row["cached"] if known["new_blocks"] is not None}
        assert travelling(delta) == want, row["step"]
        assert list(delta.num_scheduled_tokens.items()) == list(row["sched"].items()), row["step"]
        computed = {new.req_id: new.num_computed_tokens for new in delta.new_requests}
        assert computed == {new["id"]: new["computed"] for new in row["new"]}
        assert sorted(delta.finished_req_ids) == sorted(row["finished"])


def test_blocks_behind_the_window_go_back_and_are_handed_out_again(rig, ask) -> None:
    # GIVEN blocks of 4 and a window of 6 beside a full group
    served = rig(
        kv_groups=("full", "window=6"), block_size=4, num_blocks=9, max_model_len=20, enable_prefix_caching=False
    )
    served.add(ask("a", 8, 8))
    # WHEN the request grows: 8 tokens take 1 2 | 3 4; the 9th and the 13th token take a block a group each
    deltas = served.drain()
    # THEN the query at 8 sees 3 .. 8 and needs block 3; that at 12 sees 7 .. 12, and block 3 is taken first again
    assert [travelling(delta) for delta in deltas if travelling(delta)] == [
        {"a": [[1, 2], [3, 4]]},
        {"a": [[5], [6]]},
        {"a": [[3], [7]]},
    ]
    assert served.scheduler.num_free_blocks == 8


def test_a_window_that_is_passed_within_one_chunk_is_given_back_before_the_next(rig, ask) -> None:
    served = rig(
        kv_groups=("full", "window=4"), block_size=4, num_blocks=20, max_model_len=40, max_num_batched_tokens=16,
        enable_prefix_caching=False,
    )  # fmt: skip
    served.add(ask("a", 32, 2))
    first, second, *_ = served.drain()
    assert travelling(first) == {"a": [[1, 2, 3, 4], [5, 6, 7, 8]]}
    # the query at 16 sees 13 .. 16: blocks 5, 6, 7 are free, the row's tail comes first
    assert travelling(second) == {"a": [[7, 6, 5, 9], [10, 11, 12, 13]]}


def test_a_window_finds_a_prefix_by_the_blocks_it_reaches_into() -> None:
    # GIVEN blocks of 2 and a window of 4, whose 3 earlier positions touch 2 blocks
    pool = BlockPool(20)
    group = GroupCache(GroupSpec("window", 4), 2, 1, pool)
    keys = [bytes([index]) for index in range(6)]
    blocks = pool.take(6)
    # WHEN blocks 2 and 3 are cached, THEN a prefix of 4 blocks is found: nothing below is needed
    group.remember(blocks, keys, 2, 4)
    assert group.find(keys) == [0, 0, blocks[2], blocks[3]]
    assert group.find(keys[:4]) == [0, 0, blocks[2], blocks[3]]
    # AND of a shorter one only block 2 is there, which is not enough
    assert group.find(keys[:3]) == []
    # AND the very first block is a prefix of its own
    group.remember(blocks, keys, 0, 1)
    assert group.find(keys[:2]) == [blocks[0]]
    # AND another group's content is not this group's
    assert GroupCache(GroupSpec("full"), 2, 0, pool).find(keys) == []


def test_a_hit_is_as_long_as_the_group_that_knows_least(rig, ask) -> None:
    # GIVEN a finished request whose windowed blocks were given back and partly reused
    config = {"kv_groups": ("full", "window=5"), "block_size": 4, "max_model_len": 40, "max_num_seqs": 1}
    served = rig(num_blocks=40, **config)
    served.add(ask("a", 17, 2, prefix=PrefixHashes(16, (7, 1))))
    served.drain()
    served.add(ask("b", 18, 2, prefix=PrefixHashes(16, (7, 2))))
    (new,) = [new for delta in served.drain() for new in delta.new_requests if new.req_id == "b"]
    # THEN both groups have 16 tokens, the windowed one null blocks below the one that is still seen
    assert new.num_computed_tokens == 16
    assert new.block_ids[1][:3] == (0, 0, 0)
    assert 0 not in new.block_ids[0]
    assert len(new.block_ids[0]) == len(new.block_ids[1]) == 5


def test_groups_of_different_block_sizes_share_a_pool_and_hits_end_on_common_borders(rig, ask) -> None:
    served = rig(kv_groups=("full", "window=8/2"), block_size=4, num_blocks=60, max_model_len=40, max_num_seqs=1)
    served.add(ask("a", 11, 1, prefix=PrefixHashes(10, (3, 1))))
    first = served.drain()[0]
    assert [len(ids) for ids in first.new_requests[0].block_ids] == [3, 6]
    served.add(ask("b", 12, 1, prefix=PrefixHashes(10, (3, 2))))
    (again,) = [delta for delta in served.drain() if delta.new_requests and delta.new_requests[0].req_id == "b"]
    assert again.new_requests[0].num_computed_tokens == 8


def test_a_state_group_has_one_block_whatever_the_length(rig, ask) -> None:
    served = rig(
        kv_groups=("full", "state"), block_size=4, num_blocks=30, max_model_len=40, enable_prefix_caching=False
    )
    served.add(ask("a", 9, 8))
    deltas = served.drain()
    assert travelling(deltas[0]) == {"a": [[1, 2, 3], [4]]}
    assert [blocks["a"] for delta in deltas[1:] if (blocks := travelling(delta))] == [[[5], []]]
    assert served.scheduler.num_free_blocks == 29


def test_a_request_needs_no_more_of_a_windowed_group_than_window_and_chunk(rig, ask) -> None:
    # 100 tokens in blocks of 4: 25 in the full group, and (6 - 1 + 8) tokens and a begun block in the other: 5
    limits = {
        "kv_groups": ("full", "window=6"), "block_size": 4, "max_num_batched_tokens": 8, "max_model_len": 128,
        "enable_prefix_caching": False,
    }  # fmt: skip
    with pytest.raises(UsageError, match="need 30 blocks of 4"):
        Scheduler(SchedulerConfig(num_blocks=30, **limits)).add_request(ask("a", 90, 10))
    served = rig(num_blocks=31, **limits)
    served.add(ask("a", 90, 10))
    served.drain()
    assert served.scheduler.num_free_blocks == 30


@pytest.mark.parametrize("seed", range(4))
def test_preempted_and_resumed_requests_own_every_block_once(rig, ask, seed: int) -> None:
    # GIVEN a pool too small for all, in three groups
    served = rig(
        kv_groups=("full", "window=6", "window=9"), block_size=2, num_blocks=40, max_model_len=40,
        max_num_batched_tokens=16, max_num_seqs=8, enable_prefix_caching=bool(seed % 2),
    )  # fmt: skip
    served.add(*(ask(f"r{index}", 3 + (index * 5 + seed) % 14, 9 + index % 5) for index in range(12)))
    owners: dict[str, list[list[int]]] = {}
    preempted = 0
    for delta in served.drain():
        preempted += len(delta.preempted_req_ids)
        for gone in (*delta.finished_req_ids, *delta.preempted_req_ids):
            owners.pop(gone, None)
        for name, groups in travelling(delta).items():
            fresh = name in {new.req_id for new in delta.new_requests} | delta.cached.resumed_req_ids
            rows = [[], [], []] if fresh else owners[name]
            owners[name] = [row + ids for row, ids in zip(rows, groups, strict=True)]
        computed = dict(zip(delta.cached.req_ids, delta.cached.num_computed_tokens, strict=True))
        computed |= {new.req_id: new.num_computed_tokens for new in delta.new_requests}
        seen: dict[int, str] = {}
        for name, count in delta.num_scheduled_tokens.items():
            for row, window in zip(owners[name], (None, 6, 9), strict=True):
                first = 0 if window is None else max(computed[name] - window + 1, 0) // 2
                visible = row[first : -(-(computed[name] + count) // 2)]
                # THEN what a step's queries can see is real and, without a prefix cache, nobody else's
                assert 0 not in visible, name
                if not seed % 2:
                    assert all(seen.setdefault(block, name) == name for block in visible)
    assert preempted > 2
    assert served.scheduler.num_free_blocks == 39


def test_groups_as_text() -> None:
    assert parse_group("full") == GroupSpec("full")
    assert parse_group("window=128") == GroupSpec("window", 128)
    assert parse_group("window=128/32") == GroupSpec("window", 128, 32)
    assert parse_group("state/64") == GroupSpec("state", None, 64)
    for text in ("", "window", "window=", "full=3", "window=-1", "swa=4"):
        with pytest.raises(UsageError, match="is no group; write full, window=N or state"):
            parse_group(text)
    for text in ("window=0", "full/0"):
        with pytest.raises(UsageError, match="has a size of 0"):
            parse_group(text)
    for texts in ((), ("state",)):
        with pytest.raises(UsageError, match="no group that keeps keys and values"):
            parse_groups(texts)


def test_combinations_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="enable_prefix_caching with a state group"):
        SchedulerConfig(kv_groups=("full", "state"))
    with pytest.raises(UsageError, match="reserve_output with a window"):
        SchedulerConfig(kv_groups=("full", "window=4"), reserve_output=True)
