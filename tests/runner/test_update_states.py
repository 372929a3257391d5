import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.runner.state.update import jaccard
from stepscope.workloads.step import SamplingParams, StepResult


def test_resume_replaces_the_row_and_does_not_append(bench, cached):
    # GIVEN R with blocks 3, 4, 5, preempted
    b = bench(block_size=16, max_model_len=64)
    b.update({"R": 40}, new=[b.new("R", range(40), [3, 4, 5])])
    b.update({"S": 1}, new=[b.new("S", [1, 2], [7])], preempted=["R"])
    assert "R" in b.state.requests
    assert "R" not in b.batch.row_of
    # WHEN it resumes with other blocks
    figures = b.update(
        {"S": 1, "R": 40},
        cached=cached(("S", 1, None), ("R", 0, [9, 10, 11]), resumed=["R"], history={"R": range(40)}),
    )
    # THEN its row is exactly those
    row = b.batch.row_of["R"]
    assert b.table.values[row, :6].tolist() == [9, 10, 11, 0, 0, 0]
    assert b.state.requests["R"].block_ids[0].tolist() == [9, 10, 11]
    assert (figures.num_resumed, figures.num_new) == (1, 0)


def test_case_4_first_part(shared_case, bench, cached):
    case, expected = shared_case(4)
    resume = case["resume"]
    b = bench(block_size=case["block_size"], max_model_len=64)
    b.update({"R": 40}, new=[b.new("R", range(case["tokens"]), case["before_preempt_blocks"])])
    b.update({})
    b.update({"R": 40}, cached=cached(("R", resume["num_computed_tokens"], resume["new_block_ids"]), resumed=["R"]))
    assert b.table.num_blocks[0] == expected["num_blocks_after"]
    assert b.table.values[0, : expected["num_blocks_after"]].tolist() == expected["row_after"]
    for position, slot in ((0, expected["slot_pos0"]), (39, expected["slot_pos39"])):
        assert b.table.values[0, position // 16] * 16 + position % 16 == slot


def test_forced_resume_of_a_resident_request_gives_its_row_up(bench, cached):
    # Preempted and resumed within one scheduling step: the request is in the batch and must not keep its old blocks.
    b = bench()
    b.update({"A": 4, "B": 4}, new=[b.new("A", range(8), [1]), b.new("B", range(8), [2])])
    b.update({"A": 8, "B": 1}, cached=cached(("A", 0, [5, 6]), ("B", 4, [7]), resumed=["A"]))
    assert b.table.values[b.batch.row_of["A"], :2].tolist() == [5, 6]
    assert b.table.values[b.batch.row_of["B"], :2].tolist() == [2, 7]
    assert b.batch.num_computed[b.batch.row_of["A"]] == 0


def test_history_is_refreshed_for_a_request_that_was_away(bench, cached):
    # Case 4's second report: a request simply not scheduled for a step may have got a token meanwhile.
    b = bench()
    b.update({"A": 2, "B": 2}, new=[b.new("A", [1, 2], [1]), b.new("B", [3, 4], [2])])
    b.state.commit_tokens(StepResult(0, {"A": (50,), "B": (60,)}))
    b.update({"A": 1}, cached=cached(("A", 2, None)))
    assert b.state.requests["B"].output_token_ids.tolist() == [60]
    b.update({"A": 1, "B": 1}, cached=cached(("A", 3, None), ("B", 2, None), history={"B": [3, 4, 61, 62]}))
    row = b.batch.row_of["B"]
    assert b.batch.token_ids.values[row, :5].tolist() == [3, 4, 61, 62, 0]
    assert b.batch.num_tokens[row] == 4
    assert b.state.requests["B"].output_token_ids.tolist() == [61, 62]


def test_finished_requests_leave_both_views_and_unscheduled_only_the_batch(bench, cached):
    b = bench()
    b.update({"A": 1, "B": 1}, new=[b.new("A", [1], [1]), b.new("B", [2], [2])])
    figures = b.update({}, finished=["A"])
    assert set(b.state.requests) == {"B"}
    assert b.batch.num_reqs == 0
    assert (figures.num_finished, figures.batch_overlap) == (1, 0.0)
    assert b.update({}).batch_overlap is None


def test_rows_follow_the_batch_and_tokens_land_in_both_views(bench, cached):
    b = bench()
    b.update({"A": 1, "B": 1, "C": 1}, new=[b.new(r, [i], [i + 1]) for i, r in enumerate("ABC")])
    b.state.commit_tokens(StepResult(0, {"C": (9,), "A": (7,)}))
    b.update({"C": 1, "B": 1}, finished=["A"], cached=cached(("C", 1, None), ("B", 1, None)))
    assert b.batch.req_ids == ("C", "B")
    assert b.batch.moves == [(2, 0)]
    assert b.batch.token_ids.values[:2, :3].tolist() == [[2, 9, 0], [1, 0, 0]]
    b.state.commit_tokens(StepResult(1, {"C": (4, 5)}))
    assert b.batch.token_ids.values[0, :5].tolist() == [2, 9, 4, 5, 0]
    assert b.state.requests["C"].output_token_ids.tolist() == [9, 4, 5]


def test_resident_requests_take_differences_in_the_schedulers_order(bench, cached):
    b = bench()
    b.update({"A": 4, "B": 4}, new=[b.new("A", range(9), [1]), b.new("B", range(9), [2])])
    b.update({"B": 4, "A": 1}, cached=cached(("B", 4, [8, 9]), ("A", 3, None)))
    assert b.batch.req_ids == ("A", "B")
    assert b.batch.num_computed[:2].tolist() == [3, 4]
    assert b.table.values[:2, :3].tolist() == [[1, 0, 0], [2, 8, 9]]


def test_update_states_oracle(runner_oracle, bench, cached):
    actions = {
        "new r0": lambda b: b.update({"r0": 3}, new=[b.new("r0", [1, 2, 3], [0])]),
        "new r0,r1": lambda b: b.update(
            {"r0": 3, "r1": 3}, new=[b.new("r0", [1, 2, 3], [0]), b.new("r1", [4, 5, 6], [0])]
        ),
        "finish r0": lambda b: b.update({}, finished=["r0"]),
        "empty step": lambda b: b.update({}),
        "schedule r0 1 token": lambda b: b.update({"r0": 1}, cached=cached(("r0", 3, None))),
        "schedule r0 only": lambda b: b.update({"r0": 1}, cached=cached(("r0", 3, None))),
        "resume r0 blocks=[0]": lambda b: b.update({"r0": 3}, cached=cached(("r0", 0, [0]), resumed=["r0"])),
    }
    for case in runner_oracle("update_states_asserted"):
        b = bench()
        for action in case["in"]:
            before = b.batch.sampling
            actions[action](b)
        known, resident = b.state.requests, b.batch.row_of
        if isinstance(case["out"], dict):
            assert {r: [r in known, r in resident] for r in case["out"]} == case["out"]
        else:
            assert ["r0" in known, "r0" in resident, b.batch.sampling is not before] == case["out"]


def test_a_seeded_request_keeps_its_generator_while_it_is_away(bench, cached):
    b = bench()
    seeded = SamplingParams(temperature=0.7, seed=11)
    b.update({"A": 1}, new=[b.new("A", [1], [1], sampling=seeded)])
    generator = b.batch.sampling.generators[0]
    assert generator.seed == 11
    b.update({})
    b.update({"A": 1}, cached=cached(("A", 0, None)))
    assert b.batch.sampling.generators == {0: generator}


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (lambda b, c: b.update({"Z": 1}), "step 1: request 'Z' is scheduled, but neither new nor cached"),
        (lambda b, c: b.update({"Z": 1}, cached=c(("Z", 0, None))), "'Z' is scheduled as cached, but was never"),
        (lambda b, c: b.update({"A": 1}, new=[b.new("A", [1], [1])]), "request 'A' is new, but the worker already"),
        (lambda b, c: b.update({"L": 1}, new=[b.new("L", range(65), [1])]), "of 65 tokens; max_model_len is 64"),
    ],
)
def test_deltas_that_make_no_sense_are_refused_in_one_line(bench, cached, delta, message):
    b = bench()
    b.update({"A": 1}, new=[b.new("A", [1], [1])])
    with pytest.raises(UsageError, match=message) as caught:
        delta(b, cached)
    assert "\n" not in str(caught.value)


def test_blocks_of_other_cache_groups_are_refused(bench):
    b = bench()
    new = b.new("A", [1], [1])
    object.__setattr__(new, "block_ids", ((1,), (2,)))
    with pytest.raises(UsageError, match="block ids of 2 KV cache groups, but this runner has 1"):
        b.update({"A": 1}, new=[new])


def test_jaccard():
    assert jaccard(("a", "b"), ("b", "c")) == pytest.approx(1 / 3)
    assert jaccard((), ()) is None
    same = ("a",)
    assert jaccard(same, same) == 1.0


def test_points_report_the_rows_of_newcomers(bench):
    b = bench()
    seen = []
    b.points.observe(lambda name, facts: seen.append((name, facts.get("row"), facts.get("req_ids"))))
    b.update({"A": 1, "B": 1}, new=[b.new("A", [1], [1]), b.new("B", [2], [2])])
    assert seen == [
        ("update_states", None, ()),
        ("add_request", 0, None),
        ("add_request", 1, None),
        ("condense", None, ("A", "B")),
    ]
    b.points.observe(None)
    b.update({})
    assert len(seen) == 4
    assert np.array_equal(b.batch.num_tokens[:2], [0, 0])
