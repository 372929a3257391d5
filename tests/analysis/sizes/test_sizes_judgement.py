"""From a recording's dispatch rows to a problem, and the judgement of lists on other steps than they were chosen by."""

import numpy as np
import pandas as pd
import pytest
from stepscope.analysis.curves import Curve
from stepscope.analysis.sizes.costs import SizesCosts, SizesLimits, candidates_of, problem_of
from stepscope.analysis.sizes.graphs import NOT_CAPTURED, capture_costs
from stepscope.analysis.sizes.judgement import gain_of, judge_arm, predicted_gain
from stepscope.analysis.sizes.solve import solve_sizes
from stepscope.analysis.sizes.stream import SizesStream, sizes_stream, split_stream
from stepscope.errors import UsageError


def curve(times):
    sizes, values = (np.array(list(part), dtype=np.int64) for part in (times, times.values()))
    return Curve(sizes, values, (None,) * len(times))


COSTS = SizesCosts(curve({1: 10, 2: 11, 4: 30, 8: 20, 16: 40}), curve({16: 100, 64: 150}))


def stream(*tokens):
    return SizesStream(np.array(tokens, dtype=np.int64), np.arange(len(tokens)), 0)


class Source:
    def __init__(self, **tables):
        self._tables = tables

    def table(self, name):
        return self._tables.get(name, pd.DataFrame())


def test_steps_that_no_list_would_change_are_left_out():
    steps = pd.DataFrame({"step": [0, 1, 2, 3, 4], "warmup": [True, False, False, False, False], "complete": True})
    dispatch = pd.DataFrame({
        "step": [0, 1, 2, 3, 4], "num_tokens": [9, 5, 700, 6, 7], "size": [16, 8, None, None, None],
        "reason": ["hit", "hit", "above_max", "mixed", "disabled"],
    })  # fmt: skip
    found = sizes_stream(Source(steps=steps, dispatch=dispatch))
    assert found.tokens.tolist() == [5, 700, 7]  # the warm-up step is not counted at all
    assert found.numbers.tolist() == [1, 2, 4]
    assert found.left_out == 1
    assert (found.up_to(512).tokens.tolist(), found.up_to(512).left_out) == ([5, 7], 2)


def test_the_first_part_chooses_and_the_rest_judges():
    head, rest = split_stream(stream(1, 2, 3, 4), 0.25)
    assert rest.numbers.tolist() == [1, 2, 3]
    assert (head.tokens.tolist(), rest.tokens.tolist()) == ([1], [2, 3, 4])
    with pytest.raises(UsageError, match="1 steps could replay"):
        split_stream(stream(1), 0.5)
    with pytest.raises(UsageError, match="--train: 1 leaves nothing"):
        split_stream(stream(1, 2), 1)


def test_what_steps_cost_follows_the_next_captured_size():
    cost = COSTS.step_ns((2, 4, 16), np.array([1, 2, 3, 5, 16, 17], dtype=np.int64))
    assert cost.tolist() == [11, 11, 30, 40, 40, 150]
    assert COSTS.step_ns((), np.array([1], dtype=np.int64)).tolist() == [100]
    with pytest.raises(UsageError, match="65 tokens lies above 64"):
        COSTS.step_ns((2,), np.array([65], dtype=np.int64))


def test_attention_that_takes_longer_in_a_larger_graph_counts_for_the_list_without_it():
    # GIVEN a dip of the stack at 8, and attention whose keys are shared out among fewer programs from 8 on
    costs = SizesCosts(COSTS.graph, COSTS.eager, curve({1: 500, 4: 503, 8: 530, 16: 535}))
    sizes, tokens = np.array([1, 2, 8, 16], dtype=np.int64), np.array([1, 9, 60], dtype=np.int64)
    # THEN what counts is how much longer it takes than in the smallest graph, the largest known one's above all
    assert costs.graph_ns(sizes).tolist() == [10, 11 + 3, 20 + 30, 40 + 35]
    assert costs.eager_ns(tokens).tolist() == [100, 100 + 35, 150 + 35]
    # AND the list that the stack alone would choose is not the best any more
    stack, whole = (
        solve_sizes(problem_of(stream(3, 3, 3), one, SizesLimits(maximum=16, max_graphs=2))).sizes
        for one in (costs.without_attention(), costs)
    )
    assert (stack, whole) == ((8, 16), (4, 16))


def test_a_fall_within_the_same_kernels_is_noise_and_the_smaller_of_two_that_cost_the_same_is_better():
    # GIVEN 3 measured faster than 2 with the same kernels, a real dip at 8 by other ones, and a size of unknown kernels
    sizes = np.array([1, 2, 3, 4, 8, 9], dtype=np.int64)
    times = np.array([1000, 1040, 1010, 1060, 900, 890], dtype=np.int64)
    measured = Curve(sizes, times, ("a", "a", "a", "a", "b", None))
    costs = SizesCosts(measured, COSTS.eager, Curve(sizes, np.array([5, 4, 9, 9, 9, 8], dtype=np.int64), (None,) * 6))
    pooled = costs.pooled()
    # THEN 2 and 3 share their mean, a nanosecond apart; the dip and the unknown one stay
    assert pooled.graph.time_ns.tolist() == [1000, 1025, 1026, 1060, 900, 890]
    assert pooled.graph.kernels == measured.kernels
    # AND attention cannot take less in a larger graph, whatever runs it
    assert pooled.sized.time_ns.tolist() == [4, 5, 9, 10, 11, 12]
    # AND steps of two tokens get a graph of two, where the raw curve would pad them to three
    lists = [
        solve_sizes(problem_of(stream(2, 2, 2, 3), up_to(4, one), SizesLimits(maximum=4, max_graphs=3, prior=0))).sizes
        for one in (costs, pooled)
    ]
    assert lists == [(3, 4), (2, 3, 4)]


def up_to(size, costs):
    """The costs of sizes up to one, without attention."""
    kept = costs.graph.sizes <= size
    graph = Curve(costs.graph.sizes[kept], costs.graph.time_ns[kept], costs.graph.kernels[: int(kept.sum())])
    return SizesCosts(graph, costs.eager)


def test_candidates_are_measured_multiples_and_what_is_forced():
    assert candidates_of(SizesLimits(maximum=12, multiple=2, forced=(6,)), COSTS).tolist() == [2, 4, 6, 8, 12]
    with pytest.raises(UsageError, match="7 cannot be forced; it must be a multiple of 2 from 2 to 8"):
        candidates_of(SizesLimits(maximum=8, multiple=2, forced=(7,)), COSTS)
    # AND a size that was not measured costs what the next measured one does
    assert problem_of(stream(1), COSTS, SizesLimits(maximum=12)).graph_ns.tolist() == [10, 11, 30, 20, 40]


def test_counts_that_the_training_did_not_have_get_what_is_left_of_the_budget():
    seen = stream(1, 1, 2, 2)
    assert solve_sizes(problem_of(seen, COSTS, SizesLimits(maximum=16, prior=0.0))).sizes == (1, 2, 16)
    assert solve_sizes(problem_of(seen, COSTS, SizesLimits(maximum=16))).sizes == (1, 2, 8, 16)
    assert solve_sizes(problem_of(seen, COSTS, SizesLimits(maximum=16, max_graphs=2))).sizes == (2, 16)


def test_gain_on_other_steps():
    rest = stream(3, 3, 3, 8)
    plain, best = judge_arm("plain", (2, 4, 16), rest, COSTS), judge_arm("optimal", (8, 16), rest, COSTS)
    assert (plain.step_mean_ns, best.step_mean_ns) == (32.5, 20.0)
    assert plain.padded_share == (28 - 17) / 28
    gain = predicted_gain(best, plain, rest, COSTS)
    assert (gain.mean_ns, gain.share, gain.steps, gain.baseline) == (12.5, 12.5 / 32.5, 4, "plain")
    # Student's t of four batches 10, 10, 10, 20: 12.5 +- 3.182 * 2.5
    assert gain.low_ns == pytest.approx(12.5 - 3.18245 * 2.5, abs=1e-3)
    assert gain.high_ns == pytest.approx(12.5 + 3.18245 * 2.5, abs=1e-3)
    # AND the other way round it is a loss, not clamped
    assert predicted_gain(plain, best, rest, COSTS).mean_ns == -12.5


def test_steps_that_resemble_their_neighbours_do_not_narrow_the_interval():
    # GIVEN 20 stretches of 100 equal steps, THEN the interval is that of 20 values, not of 2,000
    stretches = np.arange(20) % 2 * 10
    gain, single = gain_of("x", np.repeat(stretches, 100), 50.0), gain_of("x", stretches, 50.0)
    assert (gain.low_ns, gain.high_ns) == (single.low_ns, single.high_ns)
    assert gain_of("x", np.array([5]), 50.0).low_ns is None


def test_steps_are_found_by_their_numbers():
    whole = SizesStream(np.array([5, 6, 7, 8]), np.array([10, 12, 13, 17]), 3)
    part = whole.numbered(np.array([13, 11, 10]))
    assert (part.tokens.tolist(), part.numbers.tolist(), part.left_out) == ([5, 7], [10, 13], 0)


def test_memory_and_capture_time_of_a_list():
    rows = pd.DataFrame({
        "name": ["graph_memory", "graph_memory", "graph_memory", "graph_capture", "graph_memory_estimate"],
        "key": ["full/8", "full/16", "piecewise/16", "full/16", "all"],
        "value": [2.0, 5.0, 1.0, 70.0, 9.0], "kernel_hash": None,
    })  # fmt: skip
    costs = capture_costs(rows)
    found = costs.of((4, 8, 16))
    assert (found.memory_bytes, found.capture_ns) == (3 + 3 + 6, 210)
    assert costs.of((32,)).memory_bytes is None
    assert costs.of((32,)).reason == "the largest graph that was measured has 16 tokens"
    assert capture_costs(pd.DataFrame()).of((4,)).reason == NOT_CAPTURED


def test_full_graphs_of_decodes_end_below_those_of_pieces():
    # GIVEN captures of a runner with 8 rows: its full graphs end there
    rows = pd.DataFrame({
        "name": ["graph_memory"] * 4 + ["graph_capture"] * 4,
        "key": ["full/4", "full/8", "piecewise/8", "piecewise/32"] * 2,
        "value": [1.0, 2.0, 10.0, 20.0, 100.0, 200.0, 1000.0, 2000.0], "kernel_hash": None,
    })  # fmt: skip
    costs = capture_costs(rows)
    # THEN a size above that takes its pieces' alone
    found = costs.of((4, 8, 16, 32))
    assert (found.memory_bytes, found.capture_ns) == (11 + 12 + 20 + 20, 1_100 + 1_200 + 2_000 + 2_000)
    # AND one above all is not known
    assert costs.of((8, 64)).reason == "the largest graph that was measured has 32 tokens"
