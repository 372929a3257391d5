"""What can go wrong between two steps in flight, planted one by one: each is caught by the check that is named."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.errors import BrokenInvariant
from stepscope.runner.handoff import history, strategy
from stepscope.runner.handoff.outputs import OutputRing
from stepscope.runner.handoff.plan import TokensWanted
from stepscope.runner.handoff.strategy import DeviceHandoff
from stepscope.runner.state.input_batch import InputBatch
from stepscope.workloads.requests import Request
from stepscope.workloads.step import PLACEHOLDER

PRESSED = {
    "model": "micro", "check": "every", "max_num_seqs": 8, "max_num_batched_tokens": 40, "num_blocks": 40,
    "token_handoff": "async_auto",
}  # fmt: skip


@pytest.fixture
def serve(run):
    """Twelve requests of different lengths in a tight pool; rows move, requests are preempted, resumed and reset."""
    lengths = [(3, 9), (20, 4), (7, 12), (30, 6), (5, 15), (11, 3), (2, 8), (26, 10), (9, 5), (14, 7), (4, 11), (17, 6)]
    requests = [Request(f"r{i}", prompt, output, 512) for i, (prompt, output) in enumerate(lengths)]
    return lambda **switches: run(requests, resets=(6, 15), **(PRESSED | switches))


def test_nothing_is_planted(serve):
    sync = serve(token_handoff="sync")
    for handoff in ("async_auto", "async_slice", "async_scatter"):
        outcome = serve(token_handoff=handoff)
        assert outcome.outputs == sync.outputs
        assert outcome.num_resumed > 6


def rows_of_this_step(monkeypatch):
    """A slice although rows have moved: row i takes what row i of the step before sampled."""
    right = strategy.tokens_wanted

    def wrong(*operands):
        wanted = right(*operands)
        return wanted and TokensWanted(wanted.places, np.arange(wanted.count), wanted.in_place)

    monkeypatch.setattr(strategy, "tokens_wanted", wrong)


def the_step_before_last(monkeypatch):
    """Stale previous rows: the map is one step behind, where that step had the same requests."""
    right = DeviceHandoff.submitted

    def late(self, previous, collect):
        older = getattr(self, "_newest", previous)
        self._newest = previous
        right(self, older if older.req_ids is previous.req_ids else previous, collect)

    monkeypatch.setattr(DeviceHandoff, "submitted", late)


def no_hand_off(monkeypatch):
    monkeypatch.setattr(DeviceHandoff, "apply", lambda self, input_ids: None)


def no_placeholder_in_the_batch(monkeypatch):
    right = InputBatch.append_tokens
    monkeypatch.setattr(
        InputBatch, "append_tokens",
        lambda self, rows, tokens: None if tokens is PLACEHOLDER else right(self, rows, tokens),
    )  # fmt: skip


def no_placeholder_in_the_state(monkeypatch):
    right = history.reserve

    def forgetful(state, inputs):
        reserved = right(state, inputs)
        reserved.states[0].output_token_ids.pop()
        return reserved

    monkeypatch.setattr(history, "reserve", forgetful)


def late_tokens_of_the_preempted_count(monkeypatch):
    """A token that was in flight at a preemption lands in the row that the request has by now."""

    def careless(batch, requests, reserved, tokens):
        for req_id, position, token in zip(reserved.req_ids, reserved.positions.tolist(), tokens, strict=True):
            if req_id in batch.row_of:
                batch.token_ids.values[batch.row_of[req_id], position] = token

    monkeypatch.setattr(history, "_fill_moved", careless)


def tokens_land_in_the_rows_of_then(monkeypatch):
    """The fast way into the columns, although the rows are other requests' by now."""
    right = history.fill

    def careless(state, reserved, tokens):
        right(state, reserved, tokens)
        state.batch.token_ids.values[reserved.columns, reserved.positions] = tokens

    monkeypatch.setattr(history, "fill", careless)


def one_output_slot(monkeypatch):
    """An output slot that is sampled into while the host has not read it."""
    right = OutputRing.take

    def greedy(self, step):
        self._next = 0
        self._slots[0].step = None
        return right(self, step)

    monkeypatch.setattr(OutputRing, "take", greedy)


MUTANTS = [
    (rows_of_this_step, "positions"),
    (the_step_before_last, "positions"),
    (no_hand_off, "positions"),
    (no_placeholder_in_the_batch, "row_ownership"),
    (no_placeholder_in_the_state, "row_ownership"),
    (late_tokens_of_the_preempted_count, "row_ownership"),
    (tokens_land_in_the_rows_of_then, "row_ownership"),
    (one_output_slot, "token_return"),
]


@pytest.mark.parametrize(("plant", "check"), MUTANTS)
def test_a_planted_fault_breaks_a_named_check(serve, monkeypatch, plant, check):
    plant(monkeypatch)
    with pytest.raises(BrokenInvariant, match=f"{check} broken in step"):
        serve()
