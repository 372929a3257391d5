import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.capture_sizes import padded_size_table, resolve_sizes
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.devices.base import GraphKey
from stepscope.runner.dispatch import Dispatcher, row_capacity
from stepscope.runner.dispatch_rules import GraphLimits, make_rules, mode_pair
from stepscope.runner.dispatch_shape import BatchShape

SIZES = (1, 2, 4, 8)


def step(num_scheduled, decoding=True):
    """A step by its counts; `decoding` is what the requests' state says."""
    return BatchShape(sum(num_scheduled), len(num_scheduled), max(num_scheduled), decoding)


def dispatcher(switch, sizes=SIZES, rows=8, captured=lambda key: True, rules="v2", query_len=1):
    sizes = () if switch == "none" else sizes
    limits = GraphLimits(mode_pair(switch), sizes, rows, query_len)
    ledger = Ledger()
    chooser = Dispatcher(make_rules(rules, limits), NullProbe(), ledger, captured)
    chooser.ledger = ledger
    return chooser


def shape(plan):
    return plan.mode, plan.reason, plan.padded_tokens, plan.padded_reqs, plan.size


@pytest.mark.parametrize("rules", ["v1", "v2"])
@pytest.mark.parametrize(
    ("switch", "decode", "mixed"),
    [
        ("none", ("none", "disabled", 3, 3, None), ("none", "disabled", 5, 3, None)),
        ("piecewise", ("piecewise", "hit", 4, 3, 4), ("piecewise", "hit", 8, 3, 8)),
        ("full", ("full", "hit", 4, 4, 4), ("full", "hit", 8, 8, 8)),
        ("full_decode_only", ("full", "hit", 4, 4, 4), ("none", "mixed", 5, 3, None)),
        ("full_and_piecewise", ("full", "hit", 4, 4, 4), ("piecewise", "hit", 8, 3, 8)),
    ],
)
def test_each_switch_is_a_pair_of_modes(switch, decode, mixed, rules):
    chooser = dispatcher(switch, rules=rules)
    assert shape(chooser.choose(step([1, 1, 1]))) == decode
    assert shape(chooser.choose(step([1, 3, 1], decoding=False))) == mixed


def test_a_prompt_chunk_of_one_token_is_not_a_decode():
    # Three requests of one token each; one of them is still in its prompt.
    plan = dispatcher("full_decode_only").choose(step([1, 1, 1], decoding=False))
    assert (plan.mode, plan.reason, plan.uniform) == ("none", "mixed", False)


def test_above_the_largest_size_runs_eagerly_and_says_so():
    plan = dispatcher("full_and_piecewise", sizes=(1, 2, 4, 12), rows=16).choose(step([1] * 13))
    assert shape(plan) == ("none", "above_max", 13, 13, None)
    # AND at that size it is the mixture that no graph is captured for
    plan = dispatcher("full_decode_only", sizes=(1, 2, 4, 12), rows=16).choose(step([3, 3, 3, 3], decoding=False))
    assert shape(plan) == ("none", "mixed", 12, 4, None)


def test_a_graph_that_is_missing_falls_back_and_says_so():
    no_full = dispatcher("full_and_piecewise", captured=lambda key: key.mode != "full")
    assert shape(no_full.choose(step([1, 1, 1]))) == ("piecewise", "hit", 4, 3, 4)
    nothing = dispatcher("full", captured=lambda key: False)
    assert shape(nothing.choose(step([1, 1, 1]))) == ("none", "not_captured", 3, 3, None)


def test_a_graph_with_fewer_rows_than_requests_is_not_used():
    # Three requests, two of them without a token: the graph for one token has one row.
    assert shape(dispatcher("full").choose(step([0, 1, 0], decoding=False))) == ("none", "not_captured", 1, 3, None)


def test_every_decision_is_written_down():
    chooser = dispatcher("full_decode_only")
    chooser.choose(step([1, 1, 1]))
    chooser.choose(step([5], decoding=False))
    assert chooser.ledger.rows["dispatch"] == [
        (None, 3, 3, True, 4, "full", "hit"),
        (None, 5, 1, False, None, "none", "mixed"),
    ]


def test_keys_are_what_choose_asks_for():
    # GIVEN four rows: a decode never pads beyond the size that covers four
    asked = []
    chooser = dispatcher("full_and_piecewise", rows=4, captured=lambda key: asked.append(key) or True)
    for count in range(1, 5):
        chooser.choose(step([1] * count))
        chooser.choose(step([count + 1], decoding=False))
    assert set(asked) <= set(chooser.keys())
    assert chooser.keys() == (
        GraphKey("piecewise", 8), GraphKey("full", 4, 4), GraphKey("piecewise", 4), GraphKey("full", 2, 2),
        GraphKey("piecewise", 2), GraphKey("full", 1, 1), GraphKey("piecewise", 1),
    )  # fmt: skip


def test_full_graphs_of_mixed_batches_hold_every_row_that_fits():
    assert dispatcher("full", rows=4).keys()[0] == GraphKey("full", 8, 4)
    assert shape(dispatcher("full", rows=4).choose(step([5, 1], decoding=False))) == ("full", "hit", 8, 4, 8)


def test_containers_hold_the_padded_batch():
    # The report: max_num_seqs 50 is padded to 56 and the buffer of 50 rows does not fit.
    sizes = (*range(8, 64, 8),)
    assert row_capacity(mode_pair("full_decode_only"), sizes, 50) == 56
    assert row_capacity(mode_pair("piecewise"), sizes, 50) == 50
    assert row_capacity(mode_pair("full"), (1, 2, 4), 50) == 50


def test_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="graph_mode: unknown value 'fast'; known are none, piecewise, full,"):
        dispatcher("fast")


def test_padded_size_oracle(runner_oracle):
    for case in runner_oracle("bs_to_padded"):
        assert list(padded_size_table(case["in"]["capture_sizes"])) == case["out"]


def test_case_9_third_part_a_phantom_row(shared_case):
    case, expected = shared_case(9)
    given = case["case3"]
    tokens = given["running"] * (given["K"] + 1)
    assert tokens == expected["case3_tokens"]
    assert padded_size_table(given["sizes"])[tokens] == expected["case3_padded"]


def test_case_37_the_maximum_is_captured_and_above_it_is_shown(shared_case):
    case, expected = shared_case(37)
    for maximum in case["max_values"]:
        sizes = resolve_sizes(
            "default", max_num_seqs=1024, max_num_batched_tokens=2048, max_capture_size=maximum
        )
        assert sizes[-1] == expected["wanted_top"][str(maximum)]
    for tokens, maximum in case["lookups"]:
        sizes = resolve_sizes("default", max_num_seqs=64, max_num_batched_tokens=2048, max_capture_size=maximum)
        plan = dispatcher("full_decode_only", sizes=sizes, rows=64).choose(step([1] * tokens))
        wanted = expected[f"lookup_max{maximum}"][str(tokens)]
        assert plan.size == wanted["padded"]
        if wanted["padded"] is None:
            assert (plan.mode, plan.reason) == ("none", wanted["flag"])
        elif "waste" in wanted:
            assert (plan.padded_tokens - plan.num_tokens) / plan.padded_tokens == wanted["waste"]
