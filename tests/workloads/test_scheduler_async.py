"""Requests that are scheduled while their token is in flight: placeholders, and what comes back too late."""

from __future__ import annotations

import pytest
from stepscope.errors import BrokenInvariant
from stepscope.workloads.driver import dry_run
from stepscope.workloads.regimes import build
from stepscope.workloads.step import StepResult

from .published_regimes import PUBLISHED

AHEAD = {"async_scheduling": True}
ONE_BLOCK_SHORT = {"block_size": 4, "num_blocks": 15, "max_model_len": 16, "enable_prefix_caching": False}


class Queue:
    """A queue of `depth` steps before a rig's scheduler: as a loop would drive it."""

    def __init__(self, rig, depth: int = 2) -> None:
        self.rig, self.depth = rig, depth
        self.waiting: list[StepResult] = []

    def step(self):
        delta, result = self.rig.schedule()
        self.waiting.append(result)
        if len(self.waiting) == self.depth:
            self.rig.deliver(self.waiting.pop(0))
        return delta

    def drain(self):
        scheduler = self.rig.scheduler
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            self.step()
        return self.rig.deltas


def test_a_decode_goes_on_with_a_token_in_flight(rig, ask) -> None:
    # GIVEN one request of four tokens and three to come, two steps in flight
    served = rig(**AHEAD)
    served.add(ask("a", 4, 3))
    deltas = Queue(served).drain()
    # THEN it is scheduled in every step, the count of outputs runs ahead, and the step that would sample a fourth token
    # is known not to be needed
    assert [dict(delta.num_scheduled_tokens) for delta in deltas] == [{"a": 4}, {"a": 1}, {"a": 1}, {}, {}]
    assert [delta.cached.num_computed_tokens for delta in deltas[1:3]] == [(4,), (5,)]
    assert [delta.cached.num_output_tokens for delta in deltas[1:3]] == [(1,), (2,)]
    assert not deltas[1].cached.all_token_ids
    assert deltas[4].finished_req_ids == {"a"}
    assert len(served.history["a"]) == 7


def test_without_it_a_request_in_flight_is_left_out(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 4, 3))
    queue = Queue(served)
    queue.step()
    assert queue.step().num_scheduled_tokens == {}


def test_both_ways_give_the_same_tokens(rig, batch) -> None:
    # GIVEN twelve requests that preempt each other all the time
    answers = []
    for depth, settings in ((1, {}), (2, {}), (2, AHEAD)):
        served = rig(**ONE_BLOCK_SHORT, **settings)
        served.add(*batch(12, 4, 6))
        deltas = Queue(served, depth).drain()
        assert served.scheduler.num_free_blocks == 14
        assert sum(len(delta.preempted_req_ids) for delta in deltas) > 3
        answers.append(served.history)
    assert answers[0] == answers[1] == answers[2]
    assert {len(history) for history in answers[0].values()} == {10}


def test_a_token_in_flight_at_a_preemption_is_dropped_with_its_placeholder(rig, ask) -> None:
    # GIVEN a prompt whose token is in flight when everything is reset
    served = rig(**AHEAD)
    served.add(ask("a", 4, 3))
    _, late = served.schedule()
    served.scheduler.forced_reset()
    # WHEN it is scheduled anew, and the token of the first step comes back behind that
    delta = served.scheduler.schedule()
    assert delta.cached.num_output_tokens == (0,)
    assert delta.cached.all_token_ids["a"].size == 4
    assert served.scheduler.update(late) == {}
    # THEN the new step's token is the first
    assert served.scheduler.update(StepResult(delta.step, {"a": (5,)})) == {"a": (5,)}
    assert served.scheduler.schedule().cached.num_output_tokens == (1,)


def test_a_stop_token_is_noticed_one_step_late_and_the_extra_token_is_dropped(rig, ask) -> None:
    served = rig(**AHEAD)
    served.add(ask("a", 4, 5, stop_token_ids=frozenset({99})))
    first = served.scheduler.schedule()
    second = served.scheduler.schedule()
    assert second.num_scheduled_tokens == {"a": 1}
    # WHEN the first token ends it
    assert served.scheduler.update(StepResult(first.step, {"a": (99,)})) == {"a": (99,)}
    assert served.scheduler.ended == {"a": 4}
    third = served.scheduler.schedule()
    # THEN the worker is told, and the token of the step that was under way counts for nothing
    assert third.finished_req_ids == {"a"}
    assert served.scheduler.update(StepResult(second.step, {"a": (7,)})) == {}
    assert not served.scheduler.has_unfinished()


def test_only_a_stop_token_ends_a_request_before_its_limit(rig, ask) -> None:
    served = rig()
    served.add(ask("a", 4, 5, stop_token_ids=frozenset({99})))
    for token, ended in ((7, {}), (8, {}), (99, {"a": 2})):
        delta = served.scheduler.schedule()
        assert served.scheduler.update(StepResult(delta.step, {"a": (token,)})) == {"a": (token,)}
        assert served.scheduler.ended == ended
    assert not served.scheduler.has_unfinished()


def test_a_new_request_of_the_same_name_does_not_get_the_old_ones_token(rig, ask) -> None:
    served = rig(**AHEAD)
    served.add(ask("a", 4, 5, stop_token_ids=frozenset({99})))
    first, second = served.scheduler.schedule(), served.scheduler.schedule()
    served.scheduler.update(StepResult(first.step, {"a": (99,)}))
    served.add(ask("a", 2, 5))
    third = served.scheduler.schedule()
    assert served.scheduler.update(StepResult(second.step, {"a": (7,)})) == {}
    assert served.scheduler.update(StepResult(third.step, {"a": (8,)})) == {"a": (8,)}


def test_who_sits_a_step_out_waits_for_the_token(rig, ask) -> None:
    # GIVEN a decode behind a prompt that takes the whole budget, and three steps in flight
    served = rig(max_num_batched_tokens=8, **AHEAD)
    served.add(ask("long", 30, 1), ask("short", 2, 5))
    queue = Queue(served, depth=4)
    chunks = [queue.step().num_scheduled_tokens for _ in range(3)]
    assert all(set(chunk) == {"long"} for chunk in chunks)
    # WHEN the prompt ends, the other comes in beside it and goes on
    deltas = queue.drain()
    # THEN whenever it comes back after a step without it, its history is complete
    for delta in deltas:
        for name, history in delta.cached.all_token_ids.items():
            at = delta.cached.req_ids.index(name)
            assert history.size == 2 + delta.cached.num_output_tokens[at]


def test_blocks_are_hashed_when_their_last_token_is_known(rig, ask) -> None:
    # GIVEN a prompt of 7 tokens, and a step that computes the 8th while that is in flight
    served = rig(block_size=4, **AHEAD)
    served.add(ask("a", 7, 6), ask("b", 8, 1))
    _, first = served.schedule()
    _, second = served.schedule()
    # THEN its second block, though full, has no name until the token is back, and the step that writes it
    pool = served.scheduler._kv.pool
    named = len(pool._key_of)
    served.deliver(first)
    assert len(pool._key_of) == named
    served.deliver(second)
    assert len(pool._key_of) == named + 1


def test_a_token_that_nobody_awaits_is_a_broken_invariant(rig, ask) -> None:
    served = rig(**AHEAD)
    served.add(ask("a", 4, 5))
    served.scheduler.schedule()
    served.scheduler.update(StepResult(0, {"a": (1,)}))
    with pytest.raises(BrokenInvariant, match="sampled_when_covered"):
        served.scheduler.update(StepResult(0, {"a": (1,)}))


def published(slug: str):
    return dry_run(build(slug, seed=0, vocab_size=256, **PUBLISHED[slug]))


def test_alternating_published() -> None:
    shapes = published("alternating")
    assert [shape.num_new for shape in shapes[:3]] == [32, 32, 0]
    inner = shapes[1:256]
    assert {shape.overlap for shape in inner} == {0.0}
    assert {shape.num_reqs for shape in inner} == {32}
    # every row comes back with its history: 2,080 tokens in the first such step, a million in 256
    assert shapes[2].resent_tokens == 2080
    assert sum(shape.resent_tokens for shape in shapes) == pytest.approx(1.04e6, rel=0.01)


def test_ping_pong_published() -> None:
    shapes = published("ping_pong")
    sync = published("mass_preempt")

    def changed(steps):
        return sum(bool(s.num_new or s.num_resumed or s.num_preempted or s.num_finished) for s in steps) / len(steps)

    assert changed(shapes) == pytest.approx(0.51, abs=0.05)
    assert changed(sync) == pytest.approx(0.16, abs=0.03)
