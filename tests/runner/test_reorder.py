"""Backend reorder: vLLM's tables of orders, whole rows in every swap, and the split that the order makes possible."""


import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.attention.split import leading_decodes
from stepscope.runner.config import RunnerConfig
from stepscope.runner.state.reorder import AsTheyAre, DecodeFirst, make_order, regions, sources, swaps
from stepscope.runner.validity import validate
from stepscope.workloads.step import StepDelta

THRESHOLDS = (1, 2, 4)


def batch_of(bench, request_state, requests):
    """Rows named by their number, of (scheduled, computed, prompt)."""
    b = bench(rows=max(len(requests), 1), max_model_len=1024, width=128)
    for number, (scheduled, computed, prompt) in enumerate(requests):
        outputs = range(max(computed + scheduled - prompt, 0))
        state = request_state(str(number), [number] * prompt, outputs, [1 + number], computed)
        state.generator = torch.Generator().manual_seed(number)
        b.batch.add_request(state)
    b.batch.refresh_metadata()
    counts = {str(number): scheduled for number, (scheduled, _, _) in enumerate(requests)}
    return b, StepDelta(0, num_scheduled_tokens=counts)


def test_oracle(runner_oracle, bench, request_state):
    for case in runner_oracle("reorder_decode_first_v1"):
        requests, threshold = case["in"]["requests[scheduled,computed,prompt]"], case["in"]["decode_threshold"]
        b, delta = batch_of(bench, request_state, requests)
        moved = DecodeFirst(threshold).apply(b.batch, delta)
        b.batch.refresh_metadata()
        assert [int(req_id) for req_id in b.batch.req_ids] == case["out"]["order"], case["name"]
        assert moved == case["out"]["modified"], case["name"]
        for row, name in enumerate(b.batch.req_ids):
            _, computed, prompt = requests[int(name)]
            assert b.batch.token_ids.values[row, :prompt].tolist() == [int(name)] * prompt
            assert (b.batch.num_prompt[row], b.batch.num_computed[row]) == (prompt, computed)
            assert b.batch.block_tables.tables[0].values[row, 0] == 1 + int(name)
            assert b.batch.generators.values[row].initial_seed() == int(name)


HAND = [
    # (scheduled, computed, prompt) of each row, decode threshold, order: sixteen small batches worked out on paper
    ([(1, 9, 9)], 1, [0]),
    ([(1, 0, 1)], 1, [0]),
    ([(1, 0, 1), (1, 9, 9)], 1, [1, 0]),
    ([(5, 0, 9), (5, 5, 10)], 1, [1, 0]),
    ([(5, 5, 10), (1, 5, 10)], 1, [1, 0]),  # a short extend before a long one
    ([(1, 5, 10), (1, 10, 10)], 1, [1, 0]),  # a decode before a short extend
    ([(2, 10, 10), (1, 10, 10)], 1, [1, 0]),  # two tokens are no decode for a threshold of one
    ([(2, 10, 10), (1, 10, 10)], 2, [0, 1]),
    ([(3, 0, 3), (1, 9, 9), (1, 9, 9)], 1, [2, 1, 0]),  # one swap, not a shift
    ([(1, 9, 9), (3, 0, 3), (1, 9, 9)], 1, [0, 2, 1]),
    ([(3, 0, 3), (3, 3, 6), (1, 9, 9)], 1, [2, 1, 0]),
    ([(3, 0, 3), (1, 3, 6), (3, 3, 6), (1, 9, 9)], 1, [3, 1, 2, 0]),
    ([(3, 3, 6), (3, 0, 3), (1, 9, 9), (1, 3, 6)], 1, [2, 3, 0, 1]),
    ([(1, 3, 6), (1, 9, 9), (3, 3, 6), (3, 0, 3)], 1, [1, 0, 2, 3]),
    ([(3, 0, 3), (3, 0, 3), (1, 9, 9), (1, 9, 9), (1, 9, 9)], 1, [2, 3, 4, 0, 1]),
    ([(4, 8, 8), (4, 4, 8), (9, 9, 20), (4, 0, 4), (4, 9, 9)], 4, [0, 4, 1, 2, 3]),
]


@pytest.mark.parametrize(("requests", "threshold", "order"), HAND)
def test_regions_by_hand(bench, request_state, requests, threshold, order):
    b, delta = batch_of(bench, request_state, requests)
    DecodeFirst(threshold).apply(b.batch, delta)
    b.batch.refresh_metadata()
    got = [int(req_id) for req_id in b.batch.req_ids]
    scheduled, computed, prompt = (np.array(column) for column in zip(*requests, strict=True))
    places = regions(scheduled, computed, prompt, threshold)
    assert places[got].tolist() == sorted(places.tolist())
    assert [int(places[row]) for row in got] == [int(places[row]) for row in order]
    if len(requests) < 5:
        assert got == order


def test_swaps_are_as_few_as_the_cycles_allow():
    rng = np.random.default_rng(3)
    for _ in range(200):
        places = rng.integers(0, 4, int(rng.integers(1, 40))).astype(np.int8)
        wanted = sources(places)
        rows = list(range(places.size))
        count = 0
        for first, second in swaps(wanted):
            rows[first], rows[second] = rows[second], rows[first]
            count += 1
        assert places[rows].tolist() == sorted(places.tolist())
        assert all(rows[place] == source for place, source in wanted.items())
        assert count == len(wanted) - num_cycles(wanted)


def num_cycles(source_of):
    left, cycles = set(source_of), 0
    while left:
        cycles += 1
        place = left.pop()
        while (place := source_of[place]) in left:
            left.remove(place)
    return cycles


def test_rows_in_order_are_left_alone(bench, request_state):
    b, delta = batch_of(bench, request_state, [(1, 9, 9), (1, 5, 10), (5, 5, 10), (9, 0, 9)])
    before = b.batch.sampling
    assert not DecodeFirst(1).apply(b.batch, delta)
    assert b.batch.refresh_metadata() is before
    assert not AsTheyAre().apply(b.batch, delta)


def test_split_oracle(runner_oracle):
    for case in runner_oracle("split_decodes_prefills"):
        lens, threshold, must_be_uniform = case["in"]
        if not must_be_uniform:
            assert leading_decodes(np.array(lens), threshold) == case["out"][0]


def test_a_padded_batch_of_decodes_is_decodes_to_its_end():
    assert leading_decodes(np.array([3, 3, 0, 0]), 3) == 4
    assert leading_decodes(np.array([], dtype=np.int32), 1) == 0


def test_the_switch():
    assert isinstance(make_order("off", 1), AsTheyAre)
    assert isinstance(make_order("decode_first", 3), DecodeFirst)
    with pytest.raises(UsageError, match="reorder: unknown value 'on'; known are off, decode_first"):
        make_order("on", 1)
    with pytest.raises(UsageError, match="reorder: decode_first swaps rows"):
        validate(RunnerConfig(reorder="decode_first", batch_state="stable_slots"))


def test_the_border_stands_in_the_metadata_of_a_reordered_runner(tiny_runner, cached):
    # GIVEN a decode in row 1 behind a prompt that comes in chunks
    t = tiny_runner(reorder="decode_first")
    t.run({"P": 4, "A": 3}, new=[t.new("P", range(12), [1, 2, 3]), t.new("A", range(3), [4])])
    t.run({"P": 4, "A": 1}, cached=cached(("P", 4, None), ("A", 3, None)))
    # THEN the decode has gone to the front, with all that is checked, and the border is known
    assert t.runner.state.batch.req_ids == ("A", "P")
    assert t.runner.metadata.common.num_decodes == 1
    assert t.runner.checks.report().held["row_ownership"] == 2


def test_mutant_a_swap_that_leaves_a_column_behind(tiny_runner, cached):
    # GIVEN a batch whose swaps forget one column, for every column
    t = tiny_runner(reorder="decode_first")
    names = [type(column).__name__ for column in t.runner.state.batch.columns]
    found = set()
    for index in range(len(names)):
        t = tiny_runner(reorder="decode_first")
        columns = list(t.runner.state.batch.columns)
        del columns[index]
        t.runner.state.batch.columns = tuple(columns)
        found.add((index, broken_by(t, cached)))
    # THEN a named check finds each of them; a mask that nobody uses has nothing to leave behind
    unnoticed = {names[index] for index, check in found if check is None}
    assert unnoticed <= {"MaskColumn"}
    assert {check for _, check in found} - {None} <= {"row_bijection", "row_ownership"}


def broken_by(t, cached):
    from stepscope.errors import BrokenInvariant
    from stepscope.workloads.step import SamplingParams

    warm = SamplingParams(temperature=0.9, top_k=5, top_p=0.8, seed=4)
    try:
        t.run(
            {"P": 4, "A": 3},
            new=[t.new("P", range(20, 32), [1, 2, 3], sampling=warm), t.new("A", range(3), [4])],
        )
        t.run({"P": 4, "A": 1}, cached=cached(("P", 4, None), ("A", 3, None)))
    except BrokenInvariant as broken:
        return broken.name
    except (AssertionError, KeyError):
        return "row_bijection"
    return None
