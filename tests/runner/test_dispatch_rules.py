"""vLLM's two rule sets against the decisions that its own dispatchers made, and uniformity by shape and by state."""

from collections import Counter

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.base import GraphKey
from stepscope.runner.dispatch import graph_limits, row_capacity
from stepscope.runner.dispatch_rules import GraphLimits, RulesV1, RulesV2, make_rules, mode_pair, supported_mode
from stepscope.runner.dispatch_shape import (
    BatchShape,
    is_uniform_shape,
    prefill_runs_as_decode,
    shape_by_state,
    uniform_token_count,
)
from stepscope.workloads.step import StepDelta


def limits(case):
    return GraphLimits(
        mode_pair(case["cfg_mode"].lower()), tuple(case["capture_sizes"]), case["max_num_seqs"],
        case["decode_query_len"],
    )  # fmt: skip


def told(rules, uniform):
    """The rules, told whether the step is uniform: the oracle gives the answer and not the counts."""
    rules.uniform = lambda shape: uniform
    return rules


def first(keys, eager):
    """(mode, tokens, requests) of the first key, or of an eager step."""
    key = next(iter(keys), None)
    return eager if key is None else (key.mode.upper(), key.tokens, key.rows)


def test_v1_oracle(runner_oracle):
    modes = Counter()
    for case in runner_oracle("dispatch_v1"):
        given, out = case["in"], case["out"]
        rules = told(RulesV1(limits(given)), given["uniform_decode"])
        banned = (given["invalid_mode"] or "").lower()
        step = BatchShape(given["num_tokens"], 1, given["num_tokens"])
        keys = [key for key in rules.candidates(step) if key.mode != banned]
        assert first(keys, ("NONE", given["num_tokens"], None)) == (out["mode"], out["num_tokens"], out["num_reqs"])
        separate = out["mode"] == "FULL" and mode_pair(given["cfg_mode"].lower()).separate
        assert out["uniform"] == separate
        modes[out["mode"]] += 1
    assert min(modes[mode] for mode in ("FULL", "PIECEWISE", "NONE")) > 50


def test_v1_asserted_oracle(runner_oracle):
    for case in runner_oracle("dispatch_v1_asserted"):
        mode, out = case["in"]["cfg_mode"].lower(), case["out"]
        rules = RulesV1(GraphLimits(mode_pair(mode), (1, 8), 8))
        counts = Counter(key.mode for key in rules.keys())  # noqa: SIM118 - no mapping
        assert (counts["piecewise"], counts["full"]) == (out["n_piecewise"], out["n_full"])
        for name, uniform, tokens, without in (
            ("nonuniform8", False, 8, ""), ("uniform8", True, 8, ""), ("n15", False, 15, ""),
            ("no_full8", False, 8, "full"),
        ):  # fmt: skip
            keys = told(rules, uniform).candidates(BatchShape(tokens, 1, tokens))
            got = first([key for key in keys if key.mode != without], ("NONE", tokens, None))
            want = out[name] if isinstance(out[name], list) else [out[name]]
            assert list(got)[: min(len(want), 3)] == want[:3]


def test_v2_oracle(runner_oracle):
    for case in runner_oracle("dispatch_v2"):
        given, out = case["in"], case["out"]
        query_len, count = given["decode_query_len"], given["uniform_token_count"]
        rules = told(RulesV2(limits(given)), count == query_len)
        step = BatchShape(given["num_tokens"], given["num_reqs"], 1)
        keys = [key for key in rules.candidates(step) if key.rows is None or key.rows >= given["num_reqs"]]
        got = first(keys, ("NONE", given["num_tokens"], given["num_reqs"]))
        assert got == (out["mode"], out["num_tokens"], out["num_reqs"])


def test_v2_asserted_oracle(runner_oracle):
    rules = RulesV2(GraphLimits(mode_pair("full_and_piecewise"), (1, 2, 4, 8, 16, 24), 8, 3))
    for case in runner_oracle("dispatch_v2_asserted"):
        given, out = case["in"], case["out"]
        if "full_decode_token_counts" in given:
            assert sorted(key.tokens for key in rules.keys() if key.mode == "full") == out  # noqa: SIM118
        elif "candidates_of" in given:
            keys = told(rules, True).candidates(BatchShape(given["candidates_of"], 1, 1))
            assert [[key.mode.upper(), key.tokens] for key in keys] == out
        else:
            step = BatchShape(given["num_tokens"], given["num_reqs"], 1)
            keys = told(rules, given["uniform"] == 3).candidates(step)
            fitting = [key for key in keys if key.rows is None or key.rows >= given["num_reqs"]]
            assert list(first(fitting, ("NONE", given["num_tokens"], given["num_reqs"]))) == out


def test_uniform_by_shape_oracle(runner_oracle):
    for case in runner_oracle("is_uniform_decode_v1"):
        longest, query_len, tokens, reqs, forced = case["in"]
        if forced is None:
            assert is_uniform_shape(BatchShape(tokens, reqs, longest), query_len) == case["out"]


def test_uniform_by_state_oracle(runner_oracle):
    for case in runner_oracle("uniform_token_count_v2"):
        reqs, tokens, longest, eligible = case["in"]
        assert uniform_token_count(BatchShape(tokens, reqs, longest, eligible)) == case["out"]


def test_which_prompts_run_as_decodes_oracle(runner_oracle):
    (case,) = runner_oracle("prefill_runs_as_decode_v2")
    state, scheduled, drafts = (case["in"][name] for name in ("state", "scheduled", "drafts"))
    columns = ([scheduled[r], *state[r], drafts.get(r, 0)] for r in state)
    answer = prefill_runs_as_decode(*(np.array(column) for column in zip(*columns, strict=True)))
    assert dict(zip(state, answer.tolist(), strict=True)) == case["out"]


def test_the_shape_of_a_step_by_the_state_of_its_requests(bench, request_state):
    # GIVEN two decodes, and a third request that has 6 of 8 prompt tokens
    b = bench()
    for req_id, computed in (("A", 8), ("B", 9), ("C", 6)):
        outputs = range(computed - 7) if computed > 6 else ()
        b.batch.add_request(request_state(req_id, range(8), outputs=outputs, computed=computed))
    b.batch.refresh_metadata()

    def look(scheduled, **drafts):
        delta = StepDelta(0, num_scheduled_tokens=scheduled, scheduled_spec_decode_tokens=drafts)
        return shape_by_state(b.batch, delta)

    # THEN one more prompt token over a context is like a decode, two are not
    assert look({"A": 1, "B": 1, "C": 1}) == BatchShape(3, 3, 1, decoding=True)
    assert look({"A": 1, "B": 1, "C": 2}) == BatchShape(4, 3, 2, decoding=False)
    # AND with drafts a chunk of as many tokens is no decode, while the prompt's next token and its drafts are
    three = {"A": 3, "B": 3, "C": 3}
    assert not look(three, A=(1, 2), B=(3, 4)).decoding
    assert look(three, A=(1, 2), B=(3, 4), C=(5, 6)).decoding


def test_a_prompt_of_one_token_is_no_decode(bench, request_state):
    b = bench()
    b.batch.add_request(request_state("A", [7]))
    b.batch.refresh_metadata()
    assert not shape_by_state(b.batch, StepDelta(0, num_scheduled_tokens={"A": 1})).decoding


def test_v1_takes_a_chunk_for_a_decode_and_v2_does_not():
    pair = mode_pair("full_and_piecewise")
    chunk = BatchShape(6, 2, 3, decoding=False)
    old, new = (make_rules(name, GraphLimits(pair, (3, 6), 4, 3)) for name in ("v1", "v2"))
    assert next(old.candidates(chunk)) == GraphKey("full", 6, 2)
    assert next(new.candidates(chunk)) == GraphKey("piecewise", 6)
    assert old.early is False
    assert new.early is True


def test_fallback_oracle(runner_oracle):
    for case in runner_oracle("cudagraph_mode_fallback"):
        mode, piecewise, support = case["in"]
        left = supported_mode(mode.lower(), piecewise=piecewise, support=support.lower())
        assert left == case["out"].lower()


@pytest.mark.parametrize(
    ("switch", "left"),
    [("full", "piecewise"), ("full_and_piecewise", "piecewise"), ("piecewise", "piecewise"), ("none", "none")],
)
def test_without_support_for_full_graphs_pieces_are_left(switch, left):
    assert supported_mode(switch, piecewise=True, support="never") == left


def test_decode_graphs_exceed_neither_rows_nor_token_buffers():
    pair = mode_pair("full_decode_only")
    staged = RulesV2(GraphLimits(pair, (1, 4, 8, 16), 5, 3, tokens=14)).keys()
    assert staged == (GraphKey("full", 9, 3), GraphKey("full", 6, 2), GraphKey("full", 3, 1))


def test_row_capacity_counts_whole_decodes():
    assert [row_capacity(mode_pair("full"), (4, 8), rows) for rows in (3, 5, 8, 9, 10)] == [4, 8, 8, 9, 10]
    assert row_capacity(mode_pair("full_decode_only"), (4, 8, 16, 24), 7, 3) == 8
    assert row_capacity(mode_pair("piecewise"), (4, 8, 16, 24), 7, 3) == 7


def test_the_switch_names_the_rules():
    chosen = graph_limits(RunnerConfig(graph_mode="full_decode_only", max_num_seqs=50), (8, 16, 56))
    assert (chosen.rows, chosen.decode_query_len, chosen.sizes) == (56, 1, (8, 16, 56))
    with pytest.raises(UsageError, match="dispatch_rules: unknown value 'v3'; known are v1, v2"):
        make_rules("v3", chosen)
