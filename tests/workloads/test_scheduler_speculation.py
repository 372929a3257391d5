"""Drafts in the step stream: the rules that vLLM's recorded streams do not show."""

from __future__ import annotations

import pytest
from stepscope.errors import BrokenInvariant, UsageError
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.scheduler.state import RequestState
from stepscope.workloads.step import PLACEHOLDER, StepResult

from .drafting import Drafting


def test_by_hand(ask) -> None:
    # GIVEN 6 + 7 tokens in blocks of 4, three drafts a step, of which 3, 0, 1 are accepted
    accepted = {0: 0, 1: 3, 2: 0, 3: 1}
    served = Drafting(3, lambda step: accepted.get(step, 0), block_size=4, num_blocks=8, max_model_len=32)
    served.add([ask("a", 6, 7)])
    # WHEN
    deltas = served.drain()
    # THEN computed goes 6, 10, 11, 13: what was rejected is computed again, and the last step's extra token is cut off
    assert [delta.num_scheduled_tokens for delta in deltas] == [{"a": 6}, {"a": 4}, {"a": 4}, {"a": 4}, {}]
    assert [delta.cached.num_computed_tokens for delta in deltas] == [(), (6,), (10,), (11,), ()]
    assert [delta.cached.num_output_tokens for delta in deltas] == [(), (1,), (5,), (6,), ()]
    # blocks 1 2 hold 8 tokens, 10 need a third, 14 a fourth; 15 do as well
    assert [delta.cached.new_block_ids for delta in deltas] == [(), (((3,),),), (((4,),),), (None,), ()]
    assert len(served.taken["a"]) == 7
    assert served.scheduler.num_free_blocks == 7


def test_drafts_past_the_longest_sequence_are_dropped(ask) -> None:
    # GIVEN a request that ends at max_model_len, with drafts that are never accepted
    served = Drafting(4, lambda _: 0, max_model_len=12, block_size=4, num_blocks=8)
    served.add([ask("a", 6, 50)])
    # WHEN
    deltas = served.drain()
    # THEN as the end comes near fewer fit: tokens + drafts + the token behind them is at most 12
    counts = [len(delta.scheduled_spec_decode_tokens.get("a", ())) for delta in deltas]
    assert counts == [0, 4, 3, 2, 1, 0, 0]
    assert [delta.num_scheduled_tokens.get("a", 0) for delta in deltas] == [6, 5, 4, 3, 2, 1, 0]
    assert len(served.taken["a"]) == 6


def test_in_flight_drafts_do_not_run_past_the_longest_sequence(ask) -> None:
    # GIVEN the same with two steps in flight, where the second is scheduled as if all of the first were accepted
    served = Drafting(4, lambda _: 0, depth=2, max_model_len=12, block_size=4, num_blocks=8)
    served.add([ask("a", 6, 50)])
    deltas = served.drain()
    # THEN no step reaches past it, and the request is answered in full all the same
    starts = {delta.step: delta.cached.num_computed_tokens for delta in deltas if delta.cached.req_ids}
    assert all(starts[d.step][0] + d.num_scheduled_tokens["a"] <= 11 for d in deltas if d.cached.req_ids)
    assert len(served.taken["a"]) == 6


def test_the_budget_and_the_threshold_cut_drafts(ask) -> None:
    # GIVEN two requests with 4 drafts each and 7 tokens a step
    served = Drafting(4, lambda _: 4, max_num_batched_tokens=7, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 3, 20), ask("b", 3, 20)])
    deltas = [served.step() for _ in range(2)]
    # THEN the second gets what is left: one token and one draft
    assert deltas[1].num_scheduled_tokens == {"a": 5, "b": 2}
    assert {name: len(drafts) for name, drafts in deltas[1].scheduled_spec_decode_tokens.items()} == {"a": 4, "b": 1}
    # AND a threshold cuts a verification like a prompt
    served = Drafting(4, lambda _: 4, long_prefill_token_threshold=3, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 3, 20), ask("b", 3, 20)])
    deltas = [served.step() for _ in range(2)]
    assert deltas[1].num_scheduled_tokens == {"a": 3, "b": 3}
    assert {len(drafts) for drafts in deltas[1].scheduled_spec_decode_tokens.values()} == {2}


def test_a_preempted_request_loses_its_drafts_and_what_is_in_flight(batch) -> None:
    # GIVEN two steps in flight and everything preempted between them
    served = Drafting(2, lambda _: 2, depth=2, max_model_len=64, num_blocks=64, block_size=4)
    served.add(batch(2, 5, 12))
    served.step()
    served.step()
    served.scheduler.forced_reset()
    states = served.scheduler._states.values()
    assert {(state.drafts, state.num_drafts_in_flight, state.num_placeholders) for state in states} == {((), 0, 0)}
    delta = served.step()
    # THEN it resumes without drafts, with the tokens that have come back: those of step 0
    assert delta.cached.resumed_req_ids == {"r0", "r1"}
    assert delta.num_scheduled_tokens == {"r0": 6, "r1": 6}
    assert delta.scheduled_spec_decode_tokens == {}
    assert delta.cached.num_output_tokens == (1, 1)
    # AND the step that was in flight is dropped, then everything goes on to the end
    served.drain()
    assert all(len(tokens) == 12 for tokens in served.taken.values())


def test_a_stop_token_among_accepted_drafts_cuts_off_what_is_behind_it(ask) -> None:
    served = Drafting(2, lambda _: 2, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 4, 9, stop_token_ids=frozenset({99}))])
    served.step()
    verified = served.scheduler.schedule()
    assert verified.scheduled_spec_decode_tokens == {"a": (5, 5)}
    assert served.scheduler.update(StepResult(verified.step, {"a": (7, 99, 5)})) == {"a": (7, 99)}
    # THEN it has ended with 3 of 9 tokens
    assert served.scheduler.ended == {"a": 6}


def test_drafts_for_a_request_that_was_reset_or_is_gone_are_dropped(ask) -> None:
    # GIVEN a step in flight whose request is reset, and whose result proposes drafts for it and for an unknown one
    served = Drafting(2, lambda _: 2, max_num_batched_tokens=4, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 4, 9)])
    served.step()
    late = served.scheduler.schedule()
    served.scheduler.forced_reset()
    drafts = {"a": (5, 5), "gone": (5, 5)}
    assert served.scheduler.update(StepResult(late.step, {"a": (7,)}, drafts)) == {}
    # THEN its 5 tokens are computed anew in two chunks, without drafts
    again = [served.scheduler.schedule() for _ in range(2)]
    assert [delta.num_scheduled_tokens["a"] for delta in again] == [4, 1]
    assert [delta.scheduled_spec_decode_tokens for delta in again] == [{}, {}]


def test_a_request_that_sat_out_a_step_drops_its_placeholders(ask) -> None:
    # GIVEN a budget that lets only one of two decodes in, two steps in flight
    served = Drafting(2, lambda _: 0, depth=2, max_num_batched_tokens=3, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 2, 5), ask("b", 1, 5)])
    seen: dict[str, int] = {}
    for delta in served.drain():
        for name, drafts in delta.scheduled_spec_decode_tokens.items():
            # THEN placeholders are scheduled only right behind a step of the same request
            assert seen[name] == delta.step - 1
            assert set(drafts) == {PLACEHOLDER}
        seen |= dict.fromkeys(delta.num_scheduled_tokens, delta.step)
    assert [len(delta.num_scheduled_tokens) for delta in served.deltas[:3]] == [2, 1, 1]
    back = next(delta for delta in served.deltas[1:] if "b" in delta.num_scheduled_tokens)
    assert back.num_scheduled_tokens == {"b": 1}
    assert all(len(tokens) == 5 for tokens in served.taken.values())


def test_a_reserved_row_has_room_for_drafts_and_never_changes(batch) -> None:
    for depth in (1, 2):
        served = Drafting(
            3, lambda step: step % 4, depth, max_model_len=64, num_blocks=64, block_size=4, reserve_output=True
        )
        served.add(batch(3, 7, 13))
        assert all(blocks is None for delta in served.drain() for blocks in delta.cached.new_block_ids)
        assert all(len(tokens) == 13 for tokens in served.taken.values())


@pytest.mark.parametrize("depth", [1, 2])
def test_only_what_is_confirmed_is_hashed(ask, depth: int) -> None:
    # GIVEN a request whose drafts reach into blocks that its text fills steps later
    served = Drafting(4, lambda _: 0, depth, max_model_len=64, num_blocks=64, block_size=4)
    served.add([ask("a", 6, 20)])
    for _ in range(12):
        served.step()
        # WHEN its blocks are hashed, THEN each hash is that of the text, and none covers a token that may be rejected
        state = served.scheduler._states["a"]
        again = RequestState(state.request, state.limit)
        again.tokens[: state.num_tokens] = state.history()
        full, keys = state.num_tokens // 4, state.keys[4]
        assert keys == again.block_keys(4, full)[: len(keys)]
        assert len(keys) <= full
    assert len(keys) >= 3


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("k", [1, 4, 7])
def test_any_acceptance_answers_everything_in_a_small_pool(batch, k: int, depth: int) -> None:
    # GIVEN a pool that makes requests give way to each other
    served = Drafting(
        k, lambda step: (step * 7) % (k + 1), depth, max_model_len=48, num_blocks=20, block_size=4, max_num_seqs=6
    )
    served.add(batch(9, 6, 21))
    deltas = served.drain()
    # THEN all are answered in full and every block comes back
    assert {name: len(tokens) for name, tokens in served.taken.items()} == {f"r{index}": 21 for index in range(9)}
    assert served.scheduler.num_free_blocks == 19
    assert any(delta.preempted_req_ids for delta in deltas)


def test_more_tokens_than_drafts_and_one_are_refused(ask) -> None:
    served = Drafting(2, lambda _: 0, max_model_len=64)
    served.add([ask("a", 4, 9)])
    served.step()
    delta = served.schedule()
    assert len(delta.scheduled_spec_decode_tokens["a"]) == 2
    with pytest.raises(BrokenInvariant, match=r"accepted_within_drafts.*4 tokens of a step that verified 2"):
        served.scheduler.update(StepResult(delta.step, {"a": (1, 2, 3, 4)}))


def test_the_pool_must_hold_the_drafts_too(ask) -> None:
    # GIVEN 8 tokens in 2 blocks of 4: with 3 drafts the last step writes up to token 10
    config = SchedulerConfig(block_size=4, num_blocks=3, num_speculative_tokens=3)
    with pytest.raises(UsageError, match="10 tokens need 3 blocks"):
        Scheduler(config).add_request(ask("a", 4, 4))
    Scheduler(SchedulerConfig(block_size=4, num_blocks=3)).add_request(ask("a", 4, 4))
