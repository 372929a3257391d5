"""What one step may do, rule by rule; figures of vLLM 0.33's scheduler where a rule has one."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.errors import BrokenInvariant, UsageError
from stepscope.workloads.requests import PrefixHashes
from stepscope.workloads.scheduler import SchedulerConfig
from stepscope.workloads.step import StepResult

LONG = 10_000
ROOMY = {"max_model_len": 16_384, "num_blocks": 20_000}


def test_a_prompt_alone_is_cut_by_the_budget(rig, ask, counts) -> None:
    served = rig(**ROOMY)
    served.add(ask("L", LONG, 3))
    assert counts(served.drain(), "L") == [2048] * 4 + [1808, 1, 1]


@pytest.mark.parametrize(
    ("decodes", "chunks"), [(1, [2047] * 4 + [1812]), (64, [1953, *[1984] * 4, 111])], ids=["one", "sixty-four"]
)
def test_decodes_come_before_the_chunk(rig, ask, batch, counts, decodes: int, chunks: list[int]) -> None:
    # 64 decodes of 64 tokens fill two steps; in the first step of L d63 still has 32 tokens to compute
    served = rig(**ROOMY)
    served.add(*batch(decodes, 64, 60))
    served.steps(1 if decodes == 1 else 2)
    served.add(ask("L", LONG, 3))
    assert counts(served.drain(), "L") == [*chunks, 1, 1]


def test_the_threshold_shares_the_budget(rig, ask, counts) -> None:
    served = rig(long_prefill_token_threshold=512, **ROOMY)
    served.add(ask("d", 64, 60))
    served.step()
    served.add(ask("L", LONG, 1))
    assert counts(served.drain(), "L") == [512] * 19 + [272]


def test_the_threshold_does_not_bind_an_only_request(rig, ask, counts) -> None:
    served = rig(long_prefill_token_threshold=512, **ROOMY)
    served.add(ask("L", LONG, 1))
    assert counts(served.drain(), "L") == [2048] * 4 + [1808]


def test_a_prefill_interval_leaves_steps_without_prefill(rig, ask, batch) -> None:
    served = rig(prefill_schedule_interval=4, **ROOMY)
    served.add(*batch(8, 64, 60))
    served.steps(4)
    served.add(ask("L", LONG, 1))
    chunks = [delta.num_scheduled_tokens.get("L", 0) for delta in served.steps(17)]
    assert chunks == [2040, 0, 0, 0] * 4 + [1840]
    assert all(len(delta.num_scheduled_tokens) >= 8 for delta in served.deltas[1:21])


def test_a_prefill_interval_does_not_idle_where_nothing_decodes(rig, ask, counts) -> None:
    served = rig(prefill_schedule_interval=4, **ROOMY)
    served.add(ask("L", LONG, 1))
    assert counts(served.drain(), "L") == [2048] * 4 + [1808]
    assert len(served.deltas) == 6


def test_two_long_prompts_are_served_in_turn_not_in_shares(rig, ask, counts) -> None:
    served = rig(enable_prefix_caching=False, **ROOMY)
    served.add(ask("A", LONG, 9), ask("B", LONG, 1))
    deltas = served.drain()
    assert counts(deltas, "A")[:6] == [2048] * 4 + [1808, 1]
    assert counts(deltas, "B")[:3] == [240, 2047, 2047]


def test_without_chunks_a_prompt_waits_for_room_in_the_budget(rig, ask) -> None:
    served = rig(enable_chunked_prefill=False, max_num_batched_tokens=100)
    served.add(ask("a", 60, 2), ask("b", 60, 2))
    first, second = served.steps(2)
    assert dict(first.num_scheduled_tokens) == {"a": 60}
    assert dict(second.num_scheduled_tokens) == {"a": 1, "b": 60}


def test_no_more_rows_than_max_num_seqs(rig, batch) -> None:
    served = rig(max_num_seqs=3)
    served.add(*batch(8, 4, 2))
    assert max(len(delta.num_scheduled_tokens) for delta in served.drain()) == 3


def test_the_first_that_does_not_fit_stops_those_behind_it(rig, ask) -> None:
    # GIVEN a pool of 4 blocks of which the running request holds 2
    served = rig(block_size=4, num_blocks=5, max_model_len=16)
    served.add(ask("run", 7, 2), ask("big", 12, 1), ask("small", 2, 1))
    # WHEN the big one is next THEN the small one behind it does not overtake
    assert list(served.step().num_scheduled_tokens) == ["run"]


def test_equal_prompts_of_one_step_share_blocks_at_once(rig, ask) -> None:
    served = rig()
    served.add(*(ask(f"r{i}", 512, 2, prefix=PrefixHashes(512, (7,))) for i in range(8)))
    delta = served.step()
    assert list(delta.num_scheduled_tokens.values()) == [512] + [16] * 7
    rows = [new.block_ids[0] for new in delta.new_requests]
    assert all(row[:31] == rows[0][:31] for row in rows)
    assert len({row[31] for row in rows}) == 8


def test_an_exact_repeat_computes_its_last_block_again(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 512, 1, prefix=PrefixHashes(512, (7,))))
    served.drain()
    served.add(ask("b", 512, 1, prefix=PrefixHashes(512, (7,))))
    delta = served.step()
    assert (delta.new_requests[0].num_computed_tokens, delta.num_scheduled_tokens["b"]) == (496, 16)


def test_a_hit_of_512_leaves_one_token_that_is_no_decode(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 513, 2, prefix=PrefixHashes(512, (7, 8))), ask("b", 513, 2, prefix=PrefixHashes(512, (7, 9))))
    delta = served.step()
    assert delta.new_requests[1].num_computed_tokens == 512
    assert delta.num_scheduled_tokens["b"] == 1
    assert len(delta.new_requests[1].prompt_token_ids) == 513


def test_the_last_chunk_may_be_one_token(rig, ask, counts) -> None:
    served = rig(max_num_batched_tokens=3333, **ROOMY)
    served.add(ask("L", LONG, 2))
    deltas = served.drain()
    assert counts(deltas, "L") == [3333, 3333, 3333, 1, 1]
    assert [delta.cached.num_output_tokens for delta in deltas[1:5]] == [(0,), (0,), (0,), (1,)]


def test_a_victim_finds_its_own_blocks_again_and_may_have_one_token_left(rig, ask) -> None:
    # GIVEN a decode that is preempted right after a block was filled, its blocks still cached
    served = rig(block_size=4, num_blocks=6, max_model_len=20)
    served.add(ask("old", 7, 6), ask("young", 7, 4))
    deltas = served.drain()
    # WHEN the older one needs a block, the younger one goes; and comes back when the older one has ended
    assert [delta.step for delta in deltas if delta.preempted_req_ids == ("young",)] == [2]
    (back,) = [delta for delta in deltas if delta.cached.resumed_req_ids]
    # THEN of its 9 tokens the 8 of its cached blocks are hit
    assert back.cached.num_computed_tokens == (8,)
    assert dict(back.num_scheduled_tokens) == {"young": 1}
    assert len(back.cached.new_block_ids[0][0]) == 3
    assert back.cached.all_token_ids["young"].tolist() == served.history["young"][:9]


def test_nobody_is_admitted_in_a_step_with_a_preemption(rig, ask) -> None:
    served = rig(block_size=4, num_blocks=6, max_model_len=20, max_num_seqs=2, enable_prefix_caching=False)
    served.add(ask("a", 8, 8), ask("b", 8, 8), ask("c", 1, 1))
    deltas = served.drain()
    assert [delta.step for delta in deltas if delta.preempted_req_ids and delta.new_requests] == []
    assert any(delta.preempted_req_ids for delta in deltas)


def test_a_waiting_request_gets_nothing_while_decodes_take_the_whole_budget(rig, ask) -> None:
    served = rig(max_num_batched_tokens=2)
    served.add(ask("a", 1, 3), ask("b", 1, 3), ask("c", 1, 3))
    deltas = served.steps(5)
    assert [list(delta.num_scheduled_tokens) for delta in deltas] == [["a", "b"]] * 3 + [["c"], ["c"]]


def test_a_request_left_out_of_a_step_brings_its_history_when_it_returns(rig, ask) -> None:
    # GIVEN a long prompt that is left out of every second step
    served = rig(prefill_schedule_interval=2, max_num_batched_tokens=20)
    served.add(ask("d", 4, 30), ask("L", 40, 2))
    deltas = served.steps(6)
    assert [delta.num_scheduled_tokens.get("L", 0) for delta in deltas] == [16, 0, 19, 0, 5, 1]
    # THEN it comes back with all its tokens and its row goes on; once it decodes it is there in every step
    back = [(delta.step, ids.tolist()) for delta in deltas for ids in delta.cached.all_token_ids.values()]
    assert back == [(2, served.history["L"][:40]), (4, served.history["L"][:40])]
    assert not any(delta.cached.resumed_req_ids for delta in deltas)


def test_all_that_is_not_in_the_step_before_brings_its_history(rig, ask) -> None:
    # GIVEN two steps in the queue: whoever is in flight is left out, and back two steps later
    served = rig()
    served.add(ask("a", 4, 3))
    _, first = served.schedule()
    assert not served.schedule()[0].num_scheduled_tokens
    served.deliver(first)
    third, _ = served.schedule()
    assert third.cached.all_token_ids["a"].tolist() == served.history["a"]


def test_the_watermark_keeps_blocks_free_at_admission_only(rig, ask) -> None:
    # GIVEN 10 blocks and a watermark of 3
    limits = {"block_size": 4, "num_blocks": 11, "max_model_len": 40, "watermark": 0.3}
    served = rig(**limits)
    served.add(ask("a", 28, 2), ask("b", 4, 2))
    # WHEN a holds 7 or 8 THEN b does not get in, though some are free; a alone is not held back, nor in growing
    deltas = served.drain()
    assert list(deltas[0].num_scheduled_tokens) == ["a"]
    assert list(deltas[1].num_scheduled_tokens) == ["a"]
    assert dict(deltas[2].num_scheduled_tokens) == {"b": 4}


def test_the_watermark_does_not_lock_out_an_only_request(rig, ask) -> None:
    served = rig(block_size=4, num_blocks=11, max_model_len=40, watermark=0.3)
    served.add(ask("a", 34, 2))
    served.drain()
    assert len(served.history["a"]) == 36


def test_full_input_is_reserved_or_not(rig, ask) -> None:
    # GIVEN 10 blocks, of which a holds 4 and soon 5, and a prompt of 8 blocks that comes in chunks of 2
    limits = {"block_size": 4, "num_blocks": 11, "max_model_len": 40, "max_num_batched_tokens": 8}
    for reserve, entered in ((True, False), (False, True)):
        served = rig(reserve_full_input=reserve, **limits)
        served.add(ask("a", 16, 20))
        served.steps(2)
        served.add(ask("b", 32, 1))
        assert ("b" in served.step().num_scheduled_tokens) is entered


def test_with_reserved_output_rows_never_change(rig, batch) -> None:
    served = rig(reserve_output=True, num_blocks=200, max_num_batched_tokens=64)
    served.add(*batch(20, 20, 100))
    deltas = served.drain()
    rows = [len(new.block_ids[0]) for delta in deltas for new in delta.new_requests]
    assert rows == [8] * 20  # 120 tokens
    assert all(blocks is None for delta in deltas for blocks in delta.cached.new_block_ids)
    assert not any(delta.preempted_req_ids for delta in deltas)


def test_a_forced_reset_preempts_all_and_may_resume_some_in_the_same_step(rig, batch) -> None:
    served = rig(max_num_batched_tokens=40)
    served.add(*batch(3, 16, 9))
    served.steps(3)
    tokens = {name: list(history) for name, history in served.history.items()}
    served.scheduler.forced_reset()
    delta = served.step()
    # THEN youngest first in the list, oldest first back in; nothing is hit
    assert delta.preempted_req_ids == ("r2", "r1", "r0")
    assert delta.cached.req_ids == ("r0", "r1", "r2")
    assert delta.cached.num_computed_tokens == (0, 0, 0)
    assert list(delta.num_scheduled_tokens.values())[:2] == [len(tokens["r0"]), len(tokens["r1"])]
    assert {name: ids.tolist() for name, ids in delta.cached.all_token_ids.items()} == tokens
    served.drain()
    assert all(len(history) == 25 for history in served.history.values())


def test_tokens_in_flight_at_a_preemption_are_dropped(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 8, 3))
    _, stale = served.schedule()
    served.scheduler.forced_reset()
    served.scheduler.update(stale)
    again, result = served.schedule()
    assert dict(again.num_scheduled_tokens) == {"a": 8}
    assert result.sampled["a"] == stale.sampled["a"]


def test_finished_ids_travel_in_the_next_delta_even_an_empty_one(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 4, 1))
    first = served.step()
    assert (first.finished_req_ids, served.scheduler.has_unfinished()) == (frozenset(), False)
    assert served.scheduler.has_pending_finished()
    last = served.step()
    assert (last.finished_req_ids, last.total_num_scheduled_tokens) == ({"a"}, 0)
    assert not served.scheduler.has_pending_finished()


def test_generation_is_cut_at_max_model_len(rig, ask) -> None:
    served = rig(max_model_len=10)
    served.add(ask("a", 7, 50))
    served.drain()
    assert len(served.history["a"]) == 10


@pytest.mark.parametrize(
    ("limits", "lengths", "words"),
    [
        ({"max_model_len": 100}, (101, 1), "request a: its prompt of 101 tokens.*max_model_len 100.*raise"),
        ({"max_model_len": 100}, (100, 1), "request a: its prompt of 100 tokens leaves no room"),
        ({"num_blocks": 4}, (40, 20), "request a: 60 tokens need 4 blocks of 16.*set num_blocks to at least 5"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 32}, (40, 1), "request a: 41 tokens exceed"),
    ],
)
def test_a_request_that_can_never_run_is_refused(rig, ask, limits, lengths, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        rig(**limits).add(ask("a", *lengths))


def test_ids_must_differ_while_unfinished(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 4, 1))
    with pytest.raises(UsageError, match="request a: a request of this id is unfinished"):
        served.add(ask("a", 4, 1))
    served.drain()
    served.add(ask("a", 4, 1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_size", 0),
        ("max_num_seqs", 0),
        ("max_num_batched_tokens", 0),
        ("num_blocks", 1),
        ("max_model_len", 1),
        ("prefill_schedule_interval", 0),
        ("long_prefill_token_threshold", -1),
        ("watermark", 1.0),
        ("watermark", float("nan")),
    ],
)
def test_unfit_limits_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"scheduler: {field} is "):
        SchedulerConfig(**{field: value})


def test_a_token_for_a_request_that_was_not_covered_is_a_broken_invariant(rig, ask) -> None:
    served = rig(max_num_batched_tokens=4)
    served.add(ask("a", 8, 2))
    delta = served.scheduler.schedule()
    with pytest.raises(BrokenInvariant, match="sampled_when_covered broken in step 0: a sampled with 4 of 8"):
        served.scheduler.update(StepResult(delta.step, {"a": (1,)}))


def test_a_missing_token_is_a_broken_invariant_not_an_endless_loop(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 8, 2))
    served.scheduler.update(StepResult(served.scheduler.schedule().step, {}))
    with pytest.raises(BrokenInvariant, match="every_covered_request_samples broken in step 1: a has no token"):
        served.scheduler.schedule()


def test_the_order_of_the_result_does_not_matter(rig, batch) -> None:
    streams = []
    for reverse in (False, True):
        served = rig(block_size=4, num_blocks=30, max_model_len=64)
        served.add(*batch(9, 7, 9))
        while served.scheduler.has_unfinished():
            _, result = served.schedule()
            items = sorted(result.sampled.items(), reverse=reverse)
            served.deliver(StepResult(result.step, dict(items)))
        streams.append([(dict(d.num_scheduled_tokens), d.cached.new_block_ids) for d in served.deltas])
    assert streams[0] == streams[1]


def test_handed_out_histories_do_not_change_later(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 4, 5))
    prompt = served.step().new_requests[0].prompt_token_ids
    before = prompt.copy()
    served.drain()
    assert np.array_equal(prompt, before)
    assert len(prompt) == 4
