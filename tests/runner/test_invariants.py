"""Each invariant holds on a sound run, and each planted fault trips the check that is named for it."""

from array import array

import pytest
from stepscope.errors import BrokenInvariant
from stepscope.runner.invariants.checker import CHECKS, SAMPLE_EVERY
from stepscope.workloads.step import CachedRequests, SamplingParams, StepResult


def device_table(runner):
    return runner.state.batch.block_tables.device.pools[0].tables[0]


def start(tiny_runner, **switches):
    """A is decoding, P is inside its prompt, B is decoding with a seed and a temperature; C has left."""
    t = tiny_runner(**switches)
    warm = SamplingParams(temperature=0.8, top_k=7, top_p=0.9, seed=3)
    t.run(
        {"A": 6, "C": 3, "P": 4, "B": 5},
        new=[
            t.new("A", range(6), [1, 2]),
            t.new("C", range(3), [9]),
            t.new("P", range(20, 32), [3, 4, 5]),
            t.new("B", range(5), [6, 7], sampling=warm),
        ],
    )
    return t


NEXT = ({"A": 1, "P": 4, "B": 1}, ("A", "P", "B"), (6, 4, 5))


def go_on(t, cached, scheduled=None):
    """The second step: three of four requests stay, C's row is given up."""
    counts, ids, computed = NEXT
    entries = [(req_id, done, None) for req_id, done in zip(ids, computed, strict=True)]
    return t.run(scheduled or counts, finished=["C"], cached=cached(*entries))


def plant(t, point, fault):
    """Have `fault(runner, facts)` run at a probe point."""
    t.runner.observe(lambda name, facts: fault(t.runner, facts) if name == point else None)


def test_a_sound_run_breaks_nothing(tiny_runner, cached):
    t = start(tiny_runner)
    sampled = go_on(t, cached)
    assert sorted(sampled) == ["A", "B"]
    report = t.runner.checks.report()
    assert (report.steps_seen, report.steps_checked) == (2, 2)
    assert report.held == dict.fromkeys(CHECKS, 2)
    assert list(CHECKS) == [
        "row_bijection", "row_ownership", "token_total", "query_boundaries", "positions", "seq_lens_capacity",
        "slot_ownership", "discard",
    ]  # fmt: skip


def swap_ids(runner, facts):
    row_of = runner.state.batch.row_of
    row_of["A"], row_of["B"] = row_of["B"], row_of["A"]


def swap_tokens(runner, facts):
    tokens = runner.state.batch.token_ids.values
    tokens[[0, 1]] = tokens[[1, 0]]


def share_temperature(runner, facts):
    runner.state.batch.temperature[0] = 0.8


def lose_generator(runner, facts):
    runner.state.batch.generators.values[runner.state.batch.row_of["B"]] = None


def append_old_blocks(runner, facts):
    # What an append on resume leaves behind, in both views of the request: they agree, and both are wrong.
    batch, state = runner.state.batch, runner.state.requests["A"]
    state.block_ids = (array("i", [30, 31, *state.block_ids[0]]),)
    batch.block_tables.add_row(batch.row_of["A"], state.block_ids)


def leave_a_tail(runner, facts):
    batch = runner.state.batch
    batch.block_tables.tables[0].values[batch.row_of["A"], 2] = 9


def grow(runner, facts):
    facts["inputs"].num_scheduled[0] += 1


def fall(runner, facts):
    facts["inputs"].query_start_loc_gpu[4:] = 0


def skip_a_boundary(runner, facts):
    facts["inputs"].query_start_loc[1] = 2


def last_of_another(runner, facts):
    facts["inputs"].logits_indices_gpu[0] = 1


def shift_positions(runner, facts):
    facts["inputs"].positions_gpu[:2] += 1


def take_the_neighbours_token(runner, facts):
    facts["inputs"].input_ids[0] = facts["inputs"].input_ids[1]


def stretch(runner, facts):
    facts["inputs"].seq_lens_gpu[1] += 1


def give_padding_a_length(runner, facts):
    facts["inputs"].seq_lens_gpu[7] = 1


def next_slot(runner, facts):
    facts["inputs"].slot_mapping[0] += 1


def padding_writes(runner, facts):
    facts["inputs"].slot_mapping[60] = 8


def stale_block(runner, facts):
    # The device still holds C's block for A's second page, as after a commit that did not happen.
    device_table(runner)[0, 1] = 9


def stale_row(runner, facts):
    facts["inputs"].block_table_gpu[3, 0] = 9


def show_everything(runner, facts):
    facts["inputs"].discard[:] = False


FAULTS = [
    ("condense", swap_ids, "row_bijection"),
    ("condense", swap_tokens, "row_ownership"),
    ("condense", share_temperature, "row_ownership"),
    ("condense", lose_generator, "row_ownership"),
    ("condense", append_old_blocks, "row_ownership"),
    ("condense", leave_a_tail, "row_ownership"),
    ("slot_mapping", grow, "token_total"),
    ("slot_mapping", fall, "query_boundaries"),
    ("slot_mapping", skip_a_boundary, "query_boundaries"),
    ("slot_mapping", last_of_another, "query_boundaries"),
    ("slot_mapping", shift_positions, "positions"),
    ("slot_mapping", take_the_neighbours_token, "positions"),
    ("slot_mapping", stretch, "seq_lens_capacity"),
    ("slot_mapping", give_padding_a_length, "seq_lens_capacity"),
    ("slot_mapping", next_slot, "slot_ownership"),
    ("slot_mapping", padding_writes, "slot_ownership"),
    ("cumsum", stale_block, "slot_ownership"),
    ("slot_mapping", stale_row, "slot_ownership"),
    ("slot_mapping", show_everything, "discard"),
]


@pytest.mark.parametrize(("point", "fault", "name"), FAULTS, ids=[fault.__name__ for _, fault, _ in FAULTS])
def test_a_planted_fault_trips_its_own_check(tiny_runner, cached, point, fault, name):
    t = start(tiny_runner)
    plant(t, point, fault)
    with pytest.raises(BrokenInvariant) as caught:
        go_on(t, cached)
    assert caught.value.name == name
    assert caught.value.step == 1
    assert "\n" not in str(caught.value)


def test_the_message_names_the_slot_and_its_owner(tiny_runner, cached):
    t = start(tiny_runner)
    plant(t, "cumsum", lambda runner, facts: device_table(runner).__setitem__((0, 1), 6))
    with pytest.raises(BrokenInvariant) as caught:
        go_on(t, cached)
    assert str(caught.value) == (
        "invariant slot_ownership broken in step 1:"
        " token 0 of 'A' at position 6 writes slot 26 (block 6 of 'B'), not 10"
    )


def test_a_request_with_too_few_blocks_is_named(tiny_runner):
    # GIVEN a scheduler that gave one block of four for five tokens
    t = tiny_runner()
    with pytest.raises(BrokenInvariant, match=r"seq_lens_capacity broken in step 0: 'A' is 5 tokens long, .* hold 4"):
        t.run({"A": 5}, new=[t.new("A", range(5), [1])])


def test_a_result_that_shows_a_discarded_token_is_caught(tiny_runner, cached, monkeypatch):
    t = start(tiny_runner)
    shown = StepResult(1, {"A": (1,), "B": (2,), "P": (3,)})
    monkeypatch.setattr(t.runner.state, "commit_tokens", lambda result: result.sampled.update(shown.sampled))
    with pytest.raises(BrokenInvariant, match="discard broken in step 1: 'P' got a token inside its input"):
        go_on(t, cached)


def test_append_on_resume_is_caught_although_both_views_agree(tiny_runner, cached, monkeypatch):
    t = start(tiny_runner)
    go_on(t, cached)
    t.run({"P": 4}, cached=cached(("P", 8, None)), preempted=["A"])
    # WHEN the merge appends the new blocks of a resumed request
    original = type(t.runner.state)._merge_cached

    def appends(self, delta_cached, step):
        blind = CachedRequests(
            delta_cached.req_ids, delta_cached.new_block_ids, delta_cached.num_computed_tokens,
            delta_cached.num_output_tokens, frozenset(), delta_cached.all_token_ids,
        )  # fmt: skip
        return original(self, blind, step)

    monkeypatch.setattr(type(t.runner.state), "_merge_cached", appends)
    with pytest.raises(BrokenInvariant, match=r"row_ownership .* blocks \[1, 2, 40, 41\], but 'A' owns \[40, 41\]"):
        t.run({"A": 6}, cached=cached(("A", 0, [40, 41]), resumed=["A"]))


def test_off_checks_nothing_and_sample_checks_every_sixteenth_step(tiny_runner, cached):
    off = start(tiny_runner, check="off")
    plant(off, "slot_mapping", padding_writes)
    go_on(off, cached)
    assert off.runner.checks.report().steps_checked == 0

    sample = tiny_runner(check="sample", max_num_batched_tokens=8)
    sample.run({"A": 1}, new=[sample.new("A", range(40), range(1, 17))])
    for computed in range(1, 2 * SAMPLE_EVERY):
        sample.run({"A": 1}, cached=cached(("A", computed, None)))
    assert sample.runner.checks.report().steps_checked == 2


def test_a_shared_prefix_block_may_be_read_by_two_requests(tiny_runner):
    # B's first block is A's, hit in the same step: A writes it, B only reads it.
    t = tiny_runner()
    t.run({"A": 6, "B": 2}, new=[t.new("A", range(6), [1, 2]), t.new("B", range(6), [1, 3], computed=4)])
    assert t.runner.checks.report().held["slot_ownership"] == 1


def test_a_block_given_to_two_writers_is_named(tiny_runner):
    # The scheduler itself errs: both rows own the block, agree with it, and still overwrite each other.
    t = tiny_runner()
    with pytest.raises(BrokenInvariant, match=r"slot_ownership .* two tokens write the same slot"):
        t.run({"A": 2, "B": 2}, new=[t.new("A", range(6), [1, 2]), t.new("B", range(6), [1, 3])])
