"""The whole step: what it returns, what it writes down, and that no switch changes a token."""

import itertools

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.probe import STEP_FIGURES, Probe
from stepscope.runner.devices import make_device
from stepscope.workloads.step import SamplingParams

RANGES = {
    "update_states", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping", "attention_metadata",
    "dispatch",
}  # fmt: skip


def conversation(t, cached, sampling=None):
    """A short life of three requests: chunked prefill, decode, preemption and resume, an end. Returns all tokens."""
    shown = {"A": [], "B": [], "C": []}

    def go(scheduled, **delta):
        for req_id, tokens in t.run(scheduled, **delta).items():
            shown[req_id].extend(tokens)

    a, b = np.arange(3, 9), np.arange(40, 51)
    go({"A": 6, "B": 4}, new=[t.new("A", a, [1, 2], sampling=sampling), t.new("B", b, [3, 4, 5], sampling=sampling)])
    go({"A": 1, "B": 7}, cached=cached(("A", 6, None), ("B", 4, None)))
    new_c = t.new("C", [9, 8, 7, 6], [6, 7], computed=0, sampling=sampling)
    go({"B": 1, "C": 4, "A": 1}, new=[new_c], cached=cached(("B", 11, None), ("A", 7, None)))
    # A is preempted: its blocks go back and its rows vanish; C takes over one of them
    go({"B": 1, "C": 1}, cached=cached(("B", 12, [1]), ("C", 4, None)), preempted=["A"])
    history = [*a.tolist(), *shown["A"]]
    go(
        {"A": len(history), "C": 1},
        finished=["B"],
        cached=cached(("A", 0, [8, 9, 10]), ("C", 5, None), resumed=["A"], history={"A": history}),
    )
    go({"C": 1, "A": 1}, cached=cached(("C", 6, None), ("A", len(history), None)))
    return shown


def test_no_switch_changes_a_token(tiny_runner, cached):
    # GIVEN the plain runner's tokens
    plain = conversation(tiny_runner(), cached)
    assert [len(tokens) for tokens in plain.values()] == [5, 3, 4]
    switches = {
        "commit_order": ["last", "skip"],
        "token_gather": ["cat"],
        "slot_mapping": ["torch", "host"],
        "logits": ["all_positions"],
        "graph_mode": ["piecewise", "full", "full_decode_only", "full_and_piecewise"],
        "staging": ["pinned_single", "pageable", "fresh_pinned"],
        "copy_stream": ["dedicated"],
    }
    # THEN each other setting, all checks on, shows the same
    for name, values in switches.items():
        for value in values:
            assert conversation(tiny_runner(**{name: value}), cached) == plain, (name, value)


@pytest.mark.parametrize("copy_stream", ["compute", "dedicated"])
@pytest.mark.parametrize("slot_mapping", ["triton", "host"])
def test_the_modelled_device_shows_the_same_tokens(tiny_runner, cached, copy_stream, slot_mapping):
    plain = conversation(tiny_runner(), cached)
    ledger = Ledger()
    sim = tiny_runner(
        ledger=ledger, device=make_device("sim", ledger=ledger), copy_stream=copy_stream, slot_mapping=slot_mapping
    )
    assert conversation(sim, cached) == plain
    lane = "gpu:compute" if copy_stream == "compute" else "gpu:copy"
    h2d = [row for row in ledger.rows["copies"] if row[1] == "h2d"]
    assert {row[7] for row in h2d} == {lane}
    assert {row[4] for row in h2d} == {"pinned"}


def test_every_chunking_of_a_seeded_prompt_samples_the_same(tiny_runner, cached):
    # Case 13's last line: a discarded sample must not move the request's generator.
    warm = SamplingParams(temperature=1.0, seed=5)
    answers = []
    for chunks in ([8], [3, 5], [2, 2, 2, 2]):
        t = tiny_runner()
        done, tokens = 0, []
        for index, count in enumerate(chunks):
            first = index == 0
            new = [t.new("S", np.arange(10, 18), [1, 2, 3, 4], sampling=warm)] if first else ()
            tokens += t.run({"S": count}, new=new, cached=None if first else cached(("S", done, None))).get("S", ())
            done += count
        for _ in range(4):
            tokens += t.run({"S": 1}, cached=cached(("S", done, None)))["S"]
            done += 1
        answers.append(tokens)
    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) > 1


def with_probe(tiny_runner, **switches):
    ledger = Ledger()
    device = make_device("cpu", ledger=ledger)
    probe = Probe(ledger, device.clock)
    return tiny_runner(probe=probe, ledger=ledger, device=device, **switches), ledger


def test_the_steps_row_tells_the_whole_step(tiny_runner, cached):
    t, ledger = with_probe(tiny_runner, graph_mode="full", capture_sizes=(1, 2, 4, 8, 16))
    conversation(t, cached)
    rows = [dict(zip(STEP_FIGURES, row[3:-2], strict=True)) for row in ledger.rows["steps"]]

    def column(name):
        return [row[name] for row in rows]

    assert column("num_reqs") == [2, 2, 3, 2, 2, 2]
    assert column("num_tokens") == [10, 8, 6, 2, 10, 2]
    assert column("padded_tokens") == [16, 8, 8, 2, 16, 2]
    assert column("padded_reqs") == [8, 8, 8, 2, 8, 2]
    assert column("kv_tokens_sum") == [10, 18, 24, 18, 15, 17]
    assert column("kv_tokens_max") == [6, 11, 12, 13, 9, 10]
    assert column("num_prefill") == [2, 1, 1, 0, 1, 0]
    assert column("num_decode") == [0, 1, 2, 2, 1, 2]
    assert column("num_new") == [2, 0, 1, 0, 0, 0]
    assert column("num_finished") == [0, 0, 0, 0, 1, 0]
    assert column("num_resumed") == [0, 0, 0, 0, 1, 0]
    assert column("num_preempted") == [0, 0, 0, 1, 0, 0]
    assert column("num_moved_rows") == [0, 0, 0, 1, 0, 0]
    assert column("batch_overlap") == [None, 1.0, 2 / 3, 2 / 3, 1 / 3, 1.0]
    assert [row[-1] for row in ledger.rows["steps"]] == [True] * 6


@pytest.mark.parametrize("rules", ["v1", "v2"])
def test_ranges_and_phases_have_their_names(tiny_runner, cached, rules):
    t, ledger = with_probe(tiny_runner, dispatch_rules=rules)
    conversation(t, cached)
    spans = ledger.rows["spans"]
    ranges = [row[2] for row in spans if row[0] == 0 and row[3] == "range"]
    assert set(ranges) >= RANGES
    assert {name: ranges.count(name) for name in RANGES} == dict.fromkeys(RANGES, 1)
    phases = [row[2] for row in spans if row[0] == 0 and row[3] == "phase"]
    assert phases == ["preprocess", "forward", "sample"]
    by_name = {row[2]: row for row in spans if row[0] == 0}
    order = ["update_states", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping"]
    order.insert(1 if rules == "v2" else len(order), "dispatch")
    starts = [by_name[name][5] for name in order]
    assert starts == sorted(starts)


@pytest.mark.parametrize(("order", "later"), [("first", "build_indices"), ("last", None)])
def test_commit_order_places_the_tables_copy(tiny_runner, order, later):
    t, ledger = with_probe(tiny_runner, commit_order=order)
    t.run({"A": 3}, new=[t.new("A", range(3), [1])])
    buffers = [row[6] for row in ledger.rows["copies"] if row[1] == "h2d"]
    assert (buffers[0] if later else buffers[-1]) == "block_table"
    assert sorted(buffers) == ["block_table", "input_ids", "positions", "query_start_loc", "seq_lens"]


def test_slot_mapping_is_the_tables_first_consumer(tiny_runner):
    t, ledger = with_probe(tiny_runner)
    t.run({"A": 3}, new=[t.new("A", range(3), [1])])
    (table,) = [row[-1] for row in ledger.rows["copies"] if row[6] == "block_table"]
    (launch,) = [row[-1] for row in ledger.rows["spans"] if row[2:4] == ("slot_mapping", "launch")]
    assert (0, "consumer", launch, table) in ledger.rows["edges"]


def test_a_delta_without_tokens_only_changes_membership(tiny_runner):
    t, ledger = with_probe(tiny_runner)
    t.run({"A": 3, "B": 2}, new=[t.new("A", range(3), [1]), t.new("B", range(2), [2])])
    assert t.run({}, finished=["A"], preempted=["B"]) == {}
    assert set(t.runner.state.requests) == {"B"}
    row = dict(zip(STEP_FIGURES, ledger.rows["steps"][1][3:-2], strict=True))
    assert (row["num_reqs"], row["num_tokens"], row["num_finished"], row["batch_overlap"]) == (0, 0, 1, 0.0)
    assert ledger.rows["steps"][1][-1] is True
    assert t.run({}) == {}


def test_a_dispatch_row_a_step(tiny_runner, cached):
    t, ledger = with_probe(tiny_runner, graph_mode="full_decode_only", capture_sizes=(1, 2, 4))
    conversation(t, cached)
    assert [row[3:] for row in ledger.rows["dispatch"]] == [
        (False, None, "none", "above_max"), (False, None, "none", "above_max"), (False, None, "none", "above_max"),
        (True, 2, "full", "hit"), (False, None, "none", "above_max"), (True, 2, "full", "hit"),
    ]  # fmt: skip


def test_the_observer_sees_the_eight_points_in_order_and_is_free_when_gone(tiny_runner, cached):
    t = tiny_runner()
    seen = []
    t.runner.observe(lambda name, facts: seen.append(name))
    t.run({"A": 3}, new=[t.new("A", range(3), [1])])
    assert seen == [
        "update_states", "add_request", "condense", "cumsum", "gather", "slot_mapping", "attention_metadata", "logits",
    ]  # fmt: skip
    t.runner.observe(None)
    t.run({"A": 1}, cached=cached(("A", 3, [2])))
    assert len(seen) == 8
    assert not t.runner.points.active


def test_an_exception_leaves_the_step_incomplete(tiny_runner):
    t, ledger = with_probe(tiny_runner)
    with pytest.raises(UsageError, match="is scheduled, but neither new nor cached"):
        t.run({"Z": 1})
    assert [row[-1] for row in ledger.rows["steps"]] == [False]


def test_random_lives_break_no_invariant(tiny_runner, cached):
    """Requests come, go, sit out and resume at random; every step is checked against the scheduler's words."""
    random = np.random.default_rng(7)
    for switches in ({}, {"graph_mode": "full_and_piecewise", "commit_order": "last"}, {"commit_order": "skip"}):
        t = tiny_runner(max_num_seqs=6, num_blocks=4096, **switches)
        run_at_random(t, cached, random, steps=60)
        assert t.runner.checks.report().steps_checked > 50


def run_at_random(t, cached, random, steps):
    live, fresh_blocks = {}, itertools.count(1)  # req_id -> [prompt, outputs, computed, blocks, resting]
    born = itertools.count()

    def blocks_for(tokens, have=0):
        return [next(fresh_blocks) for _ in range(have, -(-tokens // 4))]

    for _ in range(steps):
        finished = [r for r, s in live.items() if len(s["outputs"]) >= s["goal"]]
        for req_id in finished:
            del live[req_id]
        scheduled, entries, resumed, history, new, budget = {}, [], [], {}, [], 60
        for req_id, s in live.items():
            s["rested"] = s["resting"]
            s["resting"] = random.random() < 0.15
            known = s["prompt"].size + len(s["outputs"])
            if s["resting"] or budget < 1:
                s["resting"] = True
                continue
            if s["rested"] and random.random() < 0.5:  # preempted: everything is computed again
                resumed.append(req_id)
                s["computed"], s["blocks"] = 0, 0
            count = min(int(random.integers(1, 12)), known - s["computed"], budget)
            added = blocks_for(s["computed"] + count, s["blocks"])
            s["blocks"] += len(added)
            if s["rested"]:
                history[req_id] = [*s["prompt"].tolist(), *s["outputs"]]
            entries.append((req_id, s["computed"], added or ([] if req_id in resumed else None)))
            scheduled[req_id] = count
            budget -= count
        while len(live) < 6 and budget > 0 and random.random() < 0.6:
            req_id, prompt = f"r{next(born)}", random.integers(0, 90, int(random.integers(1, 30))).astype(np.int32)
            count = min(int(random.integers(1, 20)), prompt.size, budget)
            blocks = blocks_for(count)
            live[req_id] = {
                "prompt": prompt, "outputs": [], "computed": 0, "blocks": len(blocks), "resting": False,
                "goal": int(random.integers(1, 12)),
            }  # fmt: skip
            new.append(t.new(req_id, prompt, blocks))
            scheduled[req_id] = count
            budget -= count
        sampled = t.run(
            scheduled, new=new, finished=finished, cached=cached(*entries, resumed=resumed, history=history)
        )
        for req_id, count in scheduled.items():
            live[req_id]["computed"] += count
            live[req_id]["outputs"].extend(sampled.get(req_id, ()))


@pytest.mark.parametrize(
    "sizes",
    [
        {"max_num_seqs": 2**31 - 1, "max_model_len": 2**31 - 1},  # NumPy and torch say no in words of their own
        {"num_blocks": 2**31 - 1, "block_size": 2**31 - 1},
        {"max_num_batched_tokens": 2**31 - 1, "max_num_seqs": 2**31 - 1, "max_model_len": 2**31 - 1, "block_size": 1},
    ],
)
def test_what_memory_does_not_hold_is_refused_in_one_line(tiny_runner, sizes):
    with pytest.raises(UsageError, match="the runner does not fit into memory; lower one of max_num_seqs") as caught:
        tiny_runner(**sizes)
    assert "\n" not in str(caught.value)
