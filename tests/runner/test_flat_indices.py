import numpy as np
import pytest
from stepscope.runner.inputs.flat_indices import FlatIndexBuilder
from stepscope.runner.inputs.prepare import last_positions


def flatten(num_scheduled, num_computed=None, rows=16, tokens=512):
    """All flat arrays of a step as lists."""
    scheduled = np.asarray(num_scheduled, dtype=np.int32)
    computed = np.asarray(num_computed or [0] * scheduled.size, dtype=np.int32)
    builder = FlatIndexBuilder(rows, tokens)
    query_start_loc, positions = np.full(rows + 1, -9, dtype=np.int32), np.full(tokens, -9, dtype=np.int64)
    total = builder.boundaries(scheduled, query_start_loc)
    flat = builder.build(scheduled, computed, query_start_loc, positions)
    assert flat.num_tokens == total
    assert (query_start_loc[scheduled.size :] == total).all()
    return {
        "query_start_loc": query_start_loc[: scheduled.size + 1].tolist(),
        "query_pos": flat.query_pos.tolist(),
        "req_indices": flat.req_indices.tolist(),
        "positions": flat.positions.tolist(),
        "seq_lens": (computed + scheduled).tolist(),
        "logits_indices": last_positions(query_start_loc[1 : scheduled.size + 1], idle=flat.idle).tolist(),
    }


def test_the_articles_first_example():
    flat = flatten([2, 5, 3])
    assert flat["query_start_loc"] == [0, 2, 7, 10]
    assert flat["query_pos"] == [0, 1, 0, 1, 2, 3, 4, 0, 1, 2]
    assert flat["req_indices"] == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert flat["logits_indices"] == [1, 6, 9]


def test_one_token_each_takes_the_short_way_to_the_same_arrays():
    # (3, 1, 0): three requests of one token, and the same three among longer ones
    short, long = flatten([1, 1, 1], [45, 54, 0]), flatten([1, 1, 1, 2], [45, 54, 0, 7])
    for name in ("query_pos", "req_indices", "positions", "logits_indices"):
        assert short[name] == long[name][:3]


def test_a_request_without_tokens_never_points_at_minus_one():
    flat = flatten([0, 2, 0], [5, 3, 9])
    assert flat["query_start_loc"] == [0, 0, 2, 2]
    assert flat["req_indices"] == [1, 1]
    assert flat["positions"] == [3, 4]
    assert flat["logits_indices"] == [0, 1, 1]
    # one token in all, but not one each
    assert flatten([0, 2], [5, 3])["req_indices"] == [1, 1]


def test_an_empty_step_is_legal():
    assert flatten([])["query_start_loc"] == [0]


@pytest.mark.parametrize("group", ["flat_inputs_seed", "flat_inputs"])
def test_oracle(runner_oracle, group):
    checked = 0
    for case in runner_oracle(group):
        given = case["in"].get("num_scheduled", case["in"].get("scheduled"))
        if given is None:
            continue  # the kernel-block example: another subject
        flat = flatten(given, case["in"].get("num_computed", case["in"].get("computed")))
        for name in flat.keys() & case["out"].keys():
            assert flat[name] == case["out"][name], (name, case["in"])
            checked += 1
    assert checked >= 8
