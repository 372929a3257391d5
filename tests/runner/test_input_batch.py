import numpy as np
import pytest
import torch
from stepscope.errors import UsageError


def fill(bench, request_state, ids="ABCD"):
    b = bench()
    for number, req_id in enumerate(ids):
        state = request_state(
            req_id,
            prompt=[number * 10 + i for i in range(number + 2)],
            outputs=[90 + number] * (3 - number % 3),
            blocks=[number * 4 + i + 1 for i in range(number + 1)],
            computed=number + 1,
            temperature=number / 10,
        )
        state.generator = torch.Generator().manual_seed(number)
        b.state.requests[req_id] = state
        b.batch.add_request(state)
        b.batch.allow_only(req_id, [number], 8)
    b.batch.refresh_metadata()
    return b


def assert_row_is_whole(b, row, req_id):
    """Every column of the row holds the request's own data and nothing behind it."""
    state, batch = b.state.requests[req_id], b.batch
    history = [*state.prompt_token_ids.tolist(), *state.output_token_ids]
    assert batch.req_ids[row] == req_id
    assert batch.row_of[req_id] == row
    assert batch.token_ids.values[row].tolist() == history + [0] * (batch.token_ids.width - len(history))
    assert batch.num_tokens[row] == len(history)
    assert batch.num_prompt[row] == state.num_prompt_tokens
    assert batch.num_computed[row] == state.num_computed_tokens
    assert batch.temperature[row] == np.float32(state.sampling.temperature)
    assert batch.sampling.temperature[row] == np.float32(state.sampling.temperature)
    assert batch.sampling.generators[row] is state.generator
    forbidden = [token != int(ord(req_id) - ord("A")) for token in range(8)]
    assert batch.forbidden.values[row].tolist() == forbidden
    assert batch.sampling.forbidden[row].tolist() == forbidden
    blocks = state.block_ids[0].tolist()
    (table,) = batch.block_tables.tables
    assert table.values[row].tolist() == blocks + [0] * (table.width - len(blocks))


def test_removing_b_moves_d_with_every_column(bench, request_state):
    # GIVEN rows A, B, C, D
    b = fill(bench, request_state)
    # WHEN B leaves and nobody comes
    b.batch.remove_request("B")
    b.batch.condense()
    b.batch.refresh_metadata()
    # THEN D has moved from row 3 to row 1 with all it owns, and row 3 is empty
    assert b.batch.req_ids == ("A", "D", "C")
    assert b.batch.moves == [(3, 1)]
    for row, req_id in enumerate("ADC"):
        assert_row_is_whole(b, row, req_id)
    assert not b.batch.token_ids.values[3].any()
    assert not b.batch.block_tables.tables[0].values[3].any()
    assert not b.batch.forbidden.values[3].any()


def test_swap_moves_every_column(bench, request_state):
    b = fill(bench, request_state)
    b.batch.swap_rows(0, 3)
    b.batch.refresh_metadata()
    for row, req_id in enumerate("DBCA"):
        assert_row_is_whole(b, row, req_id)


def test_swaps_in_a_cycle_keep_each_request_whole(bench, request_state):
    # A, B, C -> B, C, A by two swaps
    b = fill(bench, request_state, "ABC")
    b.batch.swap_rows(0, 1)
    b.batch.swap_rows(1, 2)
    b.batch.refresh_metadata()
    assert b.batch.req_ids == ("B", "C", "A")
    for row, req_id in enumerate("BCA"):
        assert_row_is_whole(b, row, req_id)


def test_every_array_of_the_batch_is_a_declared_column(bench):
    # A column that exists but is not declared would stay behind when a row moves.
    batch = bench().batch
    declared = set(map(id, batch.columns))
    held = [value for value in vars(batch).values() if all(hasattr(value, verb) for verb in ("move", "swap", "clear"))]
    assert {id(value) for value in held} - declared == set()
    assert len(declared) == 10


def test_newcomers_take_holes_and_nothing_moves(bench, request_state):
    b = fill(bench, request_state)
    b.batch.remove_request("C")
    b.batch.remove_request("A")
    rows = [b.batch.add_request(request_state(req_id, [1, 2])) for req_id in "EF"]
    b.batch.condense()
    b.batch.refresh_metadata()
    assert rows == [0, 2]
    assert b.batch.moves == []
    assert b.batch.req_ids == ("E", "B", "F", "D")


def test_metadata_is_the_same_object_until_membership_changes(bench, request_state):
    b = fill(bench, request_state)
    before = b.batch.sampling
    assert b.batch.refresh_metadata() is before
    b.batch.remove_request("D")
    b.batch.condense()
    assert b.batch.refresh_metadata() is not before


def test_allowed_mask_oracle(runner_oracle, bench, request_state):
    (case,) = runner_oracle("allowed_mask_condense")
    b = bench()
    for req_id in ("r0", "r1", "r2"):
        b.batch.add_request(request_state(req_id, [1]))
    b.batch.allow_only("r2", case["in"]["allowed"], case["in"]["vocab"])
    masks = b.batch.forbidden.values
    assert masks[2].sum() == case["out"]["mask_row2_before"]
    b.batch.remove_request("r0")
    b.batch.condense()
    assert b.batch.row_of["r2"] == case["out"]["r2_row_after"]
    assert masks[2].sum() == case["out"]["mask_row2_after"]
    assert b.batch.add_request(request_state("r3", [1])) == case["out"]["r3_row"]
    assert masks[2].sum() == 0


def test_membership_oracle(runner_oracle, bench, request_state):
    for case in runner_oracle("input_batch_membership"):
        b = bench(rows=16, width=8)
        batch = b.batch
        for step in case["steps"]:
            batch.begin_step()
            for req_id in step["remove"]:
                batch.remove_request(req_id)
            added = [
                batch.add_request(
                    request_state(r["id"], r["prompt"], r["out"], r["blocks"], r["computed"], r["temperature"])
                )
                for r in step["add"]
            ]
            batch.condense()
            batch.refresh_metadata()
            expect = step["expect"]
            assert added == expect["rows_of_added"]
            assert batch.moves == [(source, target) for source, target, _ in expect["moved"]]
            assert list(batch.req_ids) == expect["req_ids"]
            rows = range(batch.num_reqs)
            assert batch.num_computed[: len(rows)].tolist() == expect["num_computed"]
            assert batch.num_prompt[: len(rows)].tolist() == expect["num_prompt"]
            assert batch.num_tokens[: len(rows)].tolist() == expect["num_tokens_no_spec"]
            assert [batch.token_ids.values[r, : batch.num_tokens[r]].tolist() for r in rows] == expect["tokens"]
            (table,) = batch.block_tables.tables
            assert table.num_blocks[: len(rows)].tolist() == expect["num_blocks"]
            assert [table.values[r, : table.num_blocks[r]].tolist() for r in rows] == expect["blocks"]
            assert (not table.values[len(rows) :].any()) == expect["rows_after_batch_zero"]
            assert batch.sampling.all_greedy == expect["all_greedy"]


def test_condense_oracle(runner_oracle, bench, request_state):
    (case,) = runner_oracle("condense_seed")
    b = fill(bench, request_state, case["in"]["rows"])
    for req_id in case["in"]["remove"]:
        b.batch.remove_request(req_id)
    b.batch.condense()
    b.batch.refresh_metadata()
    assert list(b.batch.req_ids) == case["out"]


def test_a_full_batch_refuses_another_request(bench, request_state):
    b = bench(rows=2)
    for req_id in "AB":
        b.batch.add_request(request_state(req_id, [1]))
    with pytest.raises(UsageError, match="all 2 rows are taken; raise max_num_seqs"):
        b.batch.add_request(request_state("C", [1]))


def test_a_full_history_refuses_another_token(bench, request_state):
    b = bench(max_model_len=4)
    b.batch.add_request(request_state("A", [1, 2, 3]))
    b.batch.append_tokens([0], [7])
    with pytest.raises(UsageError, match="'A': no room for a token behind max_model_len = 4"):
        b.batch.append_tokens([0], [8])
