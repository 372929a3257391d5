import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.attention.common import common_metadata
from stepscope.runner.plan import ExecutionPlan
from stepscope.workloads.step import StepResult


def article_batch(bench, cached):
    """A has 5 computed and block [., 2], B is new with block 5, C has 8 computed and block 4 third; block size 4."""
    bench.update(
        {"A": 5, "C": 8},
        new=[bench.new("A", [100, 101, 102, 103, 104, 105], [7, 2]), bench.new("C", range(300, 310), [8, 9, 4])],
    )
    a, c = ("A", 5, None), ("C", 8, None)
    # B takes row 1 of A, B, C because C leaves and returns behind it
    bench.update({"A": 1}, cached=cached(a))
    return bench.prepare(
        {"C": 2, "A": 1, "B": 3}, new=[bench.new("B", range(200, 207), [5])], cached=cached(a, c)
    )


@pytest.mark.parametrize("gather", ["index_select", "cat"])
@pytest.mark.parametrize("slots", ["triton", "torch", "host"])
@pytest.mark.parametrize("order", ["first", "last", "skip"])
def test_the_articles_three_requests(input_bench, cached, gather, slots, order):
    inputs = article_batch(input_bench(gather=gather, slots=slots, order=order), cached)
    assert inputs.req_ids == ("A", "B", "C")
    assert inputs.num_scheduled.tolist() == [1, 3, 2]
    assert inputs.req_indices.tolist() == [0, 1, 1, 1, 2, 2]
    assert inputs.query_pos.tolist() == [0, 0, 1, 2, 0, 1]
    assert inputs.query_start_loc.tolist() == [0, 1, 4, 6]
    assert inputs.positions.tolist() == [5, 0, 1, 2, 8, 9]
    assert inputs.seq_lens.tolist() == [6, 3, 10]
    assert inputs.logits_indices.tolist() == [0, 3, 5]
    assert inputs.discard.tolist() == [False, True, False]
    assert inputs.input_ids[:6].tolist() == [105, 200, 201, 202, 308, 309]
    assert inputs.slot_mapping[:6].tolist() == [9, 20, 21, 22, 16, 17]
    assert (inputs.slot_mapping[6:] == -1).all()
    assert inputs.logits_indices_gpu[:3].tolist() == [0, 3, 5]
    assert inputs.positions_gpu[:6].tolist() == [5, 0, 1, 2, 8, 9]
    assert inputs.query_start_loc_gpu.tolist() == [0, 1, 4, 6, 6, 6, 6, 6, 6]
    assert inputs.seq_lens_gpu.tolist() == [6, 3, 10, 0, 0, 0, 0, 0]
    assert inputs.positions.dtype == np.int64
    assert inputs.slot_mapping.dtype == torch.int64


def test_the_minimal_experiment(input_bench, cached):
    b = input_bench()
    b.update({"A": 8}, new=[b.new("A", range(8), [1, 2])])
    b.state.commit_tokens(StepResult(0, {"A": (50,)}))
    inputs = b.prepare(
        {"A": 1, "B": 3}, new=[b.new("B", range(10, 20), [4])], cached=cached(("A", 8, [3]))
    )
    assert inputs.req_ids == ("A", "B")
    assert inputs.query_start_loc.tolist() == [0, 1, 4]
    assert inputs.positions.tolist() == [8, 0, 1, 2]
    assert inputs.seq_lens.tolist() == [9, 3]
    assert inputs.logits_indices.tolist() == [0, 3]
    assert inputs.discard.tolist() == [False, True]
    assert inputs.input_ids[:4].tolist() == [50, 10, 11, 12]
    assert inputs.is_prefilling.tolist() == [False, True]


def test_rows_follow_the_batch_and_not_the_schedulers_dict(input_bench):
    b = input_bench()
    inputs = b.prepare(
        {"c": 1, "a": 3, "b": 2}, new=[b.new(r, range(4), [i + 1]) for i, r in enumerate("abc")]
    )
    assert [inputs.req_ids[row] for row in inputs.req_indices] == ["a", "a", "a", "b", "b", "c"]
    assert inputs.logits_indices.tolist() == [2, 4, 5]


def test_case_10(shared_case, input_bench):
    case, expected = shared_case(10)
    b = input_bench()
    b.update({r: 1 for r in case["input_batch_req_ids"]}, new=[
        b.new(r, range(4), [i + 1]) for i, r in enumerate(case["input_batch_req_ids"])
    ])  # fmt: skip
    inputs = b.prepare(dict(case["num_scheduled_tokens_dict_order"]))
    assert [inputs.req_ids[row] for row in inputs.req_indices] == expected["token_to_req"]
    assert inputs.logits_indices.tolist() == expected["logits_indices"]


def test_case_13_discard(shared_case, input_bench):
    case, expected = shared_case(13)
    b = input_bench(rows=4, max_model_len=1024, block_size=1024, max_tokens=1024)
    new = [b.new(r["req"], range(r["num_tokens"]), [1], computed=r["computed"]) for r in case["rows"]]
    inputs = b.prepare({r["req"]: r["scheduled"] for r in case["rows"]}, new=new)
    assert inputs.discard.tolist() == expected["discard"]
    assert [r for r, dropped in zip(inputs.req_ids, inputs.discard, strict=True) if not dropped] == (
        expected["logits_rows"]
    )
    assert expected["wrong_index_for_idle"] not in inputs.logits_indices.tolist()
    assert expected["wrong_index_for_idle"] not in inputs.logits_indices_gpu[:3].tolist()


def test_an_idle_row_is_discarded_although_its_tokens_are_covered(input_bench):
    # p is in its prompt, q finishes its prompt, idle has nothing scheduled and nothing left to compute
    b = input_bench()
    rows = [("p", 0, 4), ("q", 7, 1), ("idle", 8, 0)]
    new = [b.new(req_id, range(8), [i + 1, i + 11], computed=done) for i, (req_id, done, _) in enumerate(rows)]
    inputs = b.prepare({req_id: count for req_id, _, count in rows}, new=new)
    assert inputs.discard.tolist() == [True, False, True]
    assert inputs.logits_indices.tolist() == [3, 4, 4]


def test_a_short_chunk_of_a_prompt_is_not_a_decode(input_bench):
    # Regime 9: one token scheduled while the prompt is not covered.
    b = input_bench()
    inputs = b.prepare({"A": 1}, new=[b.new("A", range(4), [1], computed=2)])
    assert inputs.is_prefilling.tolist() == [True]
    assert inputs.discard.tolist() == [True]


def test_a_resumed_request_discards_until_its_outputs_are_computed_again(input_bench, cached):
    b = input_bench()
    b.update({"A": 3}, new=[b.new("A", [1, 2, 3], [1])])
    b.state.commit_tokens(StepResult(0, {"A": (50,)}))
    b.update({})
    inputs = b.prepare({"A": 3}, cached=cached(("A", 0, [6]), resumed=["A"], history={"A": [1, 2, 3, 50]}))
    assert inputs.discard.tolist() == [True]
    inputs = b.prepare({"A": 1}, cached=cached(("A", 3, None)))
    assert inputs.discard.tolist() == [False]
    assert inputs.input_ids[:1].tolist() == [50]


@pytest.mark.parametrize("slots", ["triton", "torch", "host"])
def test_slots_behind_a_shorter_step_are_padding_again(input_bench, cached, slots):
    b = input_bench(slots=slots)
    b.prepare({"A": 6}, new=[b.new("A", range(7), [3, 4])])
    inputs = b.prepare({"A": 1}, cached=cached(("A", 6, None)))
    assert inputs.slot_mapping[:1].tolist() == [4 * 4 + 2]
    assert (inputs.slot_mapping[1:] == -1).all()


def test_skip_copies_only_a_changed_table(input_bench, cached):
    b = input_bench(order="skip")
    assert b.prepare({"A": 3}, new=[b.new("A", range(6), [3, 4])]).table_copies
    assert b.prepare({"A": 1}, cached=cached(("A", 3, None))).table_copies == ()
    assert b.prepare({"A": 1}, cached=cached(("A", 4, [5]))).table_copies
    assert b.inputs.skipped_commits == 1


def test_padding_shows_null_rows_and_not_stale_ones(input_bench, cached):
    # GIVEN four requests, of which two finish
    b = input_bench(rows=4, spare_rows=4)
    b.prepare({r: 1 for r in "ABCD"}, new=[b.new(r, range(3), [i + 2]) for i, r in enumerate("ABCD")])
    inputs = b.prepare(
        {"A": 1, "B": 1}, finished=["C", "D"], cached=cached(("A", 1, None), ("B", 1, None))
    )
    # WHEN the step is padded to eight requests
    plan = ExecutionPlan("full", "hit", 2, 2, 8, 8, uniform=True, size=8)
    common = common_metadata(inputs, plan)
    # THEN the padding is legal everywhere, on host and device
    assert common.query_start_loc.tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 2]
    assert common.query_start_loc_cpu.tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 2]
    assert common.seq_lens.tolist() == common.seq_lens_cpu.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert common.block_table[2:].abs().sum() == 0
    assert common.block_table[:2, 0].tolist() == [2, 3]
    assert common.slot_mapping.tolist() == [9, 13, -1, -1, -1, -1, -1, -1]
    assert common.is_prefilling.tolist() == [True, True] + [False] * 6
    assert (common.max_query_len, common.max_seq_len) == (1, 2)
    assert (common.num_reqs, common.num_actual_reqs, common.num_tokens, common.num_actual_tokens) == (8, 2, 8, 2)


def test_too_many_tokens_are_refused(input_bench):
    b = input_bench(max_tokens=4)
    with pytest.raises(UsageError, match="step 0: 5 tokens are scheduled, but max_num_batched_tokens is 4"):
        b.prepare({"A": 5}, new=[b.new("A", range(6), [1, 2])])


def test_points_are_reached_in_the_articles_order(input_bench):
    b = input_bench()
    seen = []
    b.points.observe(lambda name, facts: seen.append(name))
    b.prepare({"A": 2}, new=[b.new("A", range(6), [1, 2])])
    assert seen == ["update_states", "add_request", "condense", "cumsum", "gather", "slot_mapping"]
