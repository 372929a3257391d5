"""Stable slots: who lives where, in which order a step sees them, and what a random life leaves behind."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.make_tables import TableFactory
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.probe_points import ProbePoints
from stepscope.runner.state.block_tables import BlockTables
from stepscope.runner.state.make_batch import make_batch, table_order
from stepscope.runner.state.order import step_order
from stepscope.runner.state.slot_batch import SlotBatch
from stepscope.runner.state.update import WorkerState
from stepscope.workloads.step import CachedRequests, NewRequest, SamplingParams, StepDelta, StepResult

ROWS, BLOCK, LENGTH = 6, 4, 48


class Bench:
    """A worker's state with its device tables, fed with deltas; beside it a dictionary that knows every request."""

    def __init__(self, batch_state="stable_slots", commit="staged", rows=ROWS):
        self.config = RunnerConfig(
            max_num_seqs=rows, max_model_len=LENGTH, block_size=BLOCK, batch_state=batch_state,
            block_table_commit=commit,
        )  # fmt: skip
        ledger = Ledger()
        device = CpuDevice(ledger)
        buffers = BufferFactory(device, ledger)
        self.road = buffers.road
        factory = TableFactory(device, buffers, ["table"], (rows, [LENGTH // BLOCK]), "compute")
        tables = BlockTables(resolve_groups(self.config), factory.make(commit, table_order(batch_state)))
        self.batch = make_batch(self.config, tables, device)
        self.state = WorkerState(self.batch, ProbePoints(nullcontext))
        self.step = 0

    def update(self, scheduled, new=(), cached=(), finished=(), preempted=(), resumed=(), history=None):
        """`new` and `cached` are (id, tokens or computed count, blocks or None)."""
        delta = StepDelta(
            self.step,
            tuple(
                NewRequest(req_id, np.asarray(prompt, dtype=np.int32), (tuple(blocks),), 0, SamplingParams(**sampling))
                for req_id, prompt, blocks, sampling in new
            ),
            CachedRequests(
                tuple(entry[0] for entry in cached),
                tuple(None if entry[2] is None else (tuple(entry[2]),) for entry in cached),
                tuple(entry[1] for entry in cached),
                tuple(0 for _ in cached),
                frozenset(resumed),
                {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in (history or {}).items()},
            ),
            dict(scheduled),
            frozenset(finished),
            tuple(preempted),
        )
        self.step += 1
        figures = self.state.update(delta)
        self.batch.block_tables.commit(self.batch.num_reqs)
        self.road.arrived()
        return figures

    def table(self):
        return self.batch.block_tables.device.pools[0].tables[0].tolist()


def test_a_slot_is_kept_until_finish_or_preemption():
    b = Bench()
    b.update({"a": 2, "b": 3, "c": 1}, [(name, [7] * n, [n], {}) for name, n in (("a", 2), ("b", 3), ("c", 1))])
    slots = dict(b.batch.row_of)
    # WHEN b sits a step out, c finishes and d comes
    b.update({"d": 2, "a": 1}, [("d", [1, 2], [9], {})], [("a", 2, None)], finished=["c"])
    # THEN a and b are where they were, d has c's slot, nothing moved
    assert b.batch.row_of == {"a": slots["a"], "b": slots["b"], "d": slots["c"]}
    assert b.batch.req_ids == ("a", "d")
    assert b.batch.rows.tolist() == [slots["a"], slots["c"]]
    assert b.batch.moves == []
    # WHEN b is preempted it loses its slot and keeps its state
    b.update({"a": 1}, cached=[("a", 3, None)], preempted=["b"])
    assert "b" not in b.batch.row_of
    assert "b" in b.state.requests
    # AND comes back with other blocks and with what the scheduler says of it
    b.update({"b": 4}, cached=[("b", 0, [20, 21])], resumed=["b"], history={"b": [7, 7, 7, 5]})
    slot = b.batch.row_of["b"]
    assert b.batch.token_ids.values[slot, :4].tolist() == [7, 7, 7, 5]
    assert b.table()[0][:3] == [20, 21, 0]


def test_order_is_decodes_then_short_extends_then_prefills():
    b = Bench()
    b.update(
        {"long": 9, "d1": 1, "short": 3, "d2": 1},
        [(name, [1] * n, [n], {}) for name, n in (("long", 9), ("d1", 1), ("short", 3), ("d2", 1))],
    )
    assert b.batch.req_ids == ("d1", "d2", "short", "long")
    assert b.batch.scheduled({}).tolist() == [1, 1, 3, 9]
    assert [row[0] for row in b.table()[:4]] == [1, 1, 3, 9]


def test_the_order_of_vllms_test(runner_oracle):
    for case in runner_oracle("sort_batch_req_ids_v2"):
        ids = list(case["in"]["tokens"])
        counts = np.asarray(list(case["in"]["tokens"].values()), dtype=np.int32)
        order = step_order(counts, case["in"]["q"])
        assert [ids[i] for i in order] == case["out"]


@pytest.mark.parametrize("query_len", [1, 2, 4])
@given(counts=st.lists(st.integers(1, 6), max_size=12))
@settings(max_examples=80, deadline=None)
def test_order_against_sorting_by_hand(query_len, counts):
    order = step_order(np.asarray(counts, dtype=np.int32), query_len)
    wanted = sorted(range(len(counts)), key=lambda i: (counts[i] != query_len, counts[i]))
    assert (list(range(len(counts))) if order is None else order.tolist()) == wanted


def test_steady_steps_keep_their_objects():
    """What others keep by identity (views, residents, metadata, the index map) stands while nothing changes."""
    b = Bench()
    b.update({"a": 1, "b": 1}, [("a", [1], [1], {}), ("b", [2], [2], {})])
    names = ("req_ids", "rows", "sampling", "epoch")
    before = [getattr(b.batch, name) for name in names]
    b.update({"a": 1, "b": 1}, cached=[("a", 1, None), ("b", 1, None)])
    assert all(getattr(b.batch, name) is kept for name, kept in zip(names, before, strict=True))
    b.update({"b": 1, "a": 1}, cached=[("b", 2, None), ("a", 2, None)])
    assert b.batch.req_ids == ("b", "a")
    assert b.batch.sampling is not before[2]
    assert b.batch.epoch is before[3]


def test_slots_that_changed_hands_are_looked_up_anew():
    # GIVEN b in slot 0 and a in slot 1, and a steady step in the order a, b
    b = Bench()
    b.update({"b": 1, "a": 1}, [("b", [1], [1], {}), ("a", [2], [2], {})])
    b.update({"a": 1, "b": 1}, cached=[("a", 1, None), ("b", 1, None)])
    assert b.batch.rows.tolist() == [1, 0]
    # WHEN both come back from a forced reset
    b.update({"a": 1, "b": 1}, cached=[("a", 0, [8]), ("b", 0, [9])], resumed=["a", "b"], history={"a": [2], "b": [1]})
    # THEN the map names the slots that they have now
    assert b.batch.rows.tolist() == [b.batch.row_of["a"], b.batch.row_of["b"]] == [0, 1]
    assert [row[0] for row in b.table()[:2]] == [8, 9]


def test_a_stranger_is_refused():
    b = Bench()
    with pytest.raises(UsageError, match="step 0: request 'x' is scheduled, but neither new nor cached"):
        b.update({"x": 1})


def test_a_full_house_is_refused_although_some_sit_out():
    b = Bench(rows=2)
    b.update({"a": 1, "b": 1}, [("a", [1], [1], {}), ("b", [2], [2], {})])
    with pytest.raises(UsageError, match="request 'c': all 2 rows are taken; raise max_num_seqs"):
        b.update({"c": 1}, [("c", [3], [3], {})])


def test_allowed_tokens_stay_with_their_request(runner_oracle):
    """vLLM's case on packed rows: the mask moves with its row, and its old row is clear."""
    (case,) = runner_oracle("allowed_mask_condense")
    vocab, allowed, out = case["in"]["vocab"], case["in"]["allowed"], case["out"]
    b = Bench("persistent", "full")
    b.update({f"r{i}": 1 for i in range(3)}, [(f"r{i}", [i], [i + 1], {}) for i in range(3)])
    b.batch.allow_only("r2", allowed, vocab)
    assert int(b.batch.forbidden.values[2].sum()) == out["mask_row2_before"]
    b.update({"r1": 1, "r2": 1}, cached=[("r1", 1, None), ("r2", 1, None)], finished=["r0"])
    assert b.batch.row_of["r2"] == out["r2_row_after"]
    assert int(b.batch.forbidden.values[2].sum()) == out["mask_row2_after"]
    b.update({"r1": 1, "r2": 1, "r3": 1}, [("r3", [3], [9], {})], [("r1", 2, None), ("r2", 2, None)])
    assert b.batch.row_of["r3"] == out["r3_row"]
    assert not b.batch.forbidden.values[out["r3_row"]].any()
    assert np.flatnonzero(~b.batch.sampling.forbidden[0]).tolist() == allowed


def test_allowed_tokens_follow_the_index_map():
    b = Bench()
    b.update({"long": 3, "d": 1}, [("long", [1] * 3, [1], {}), ("d", [2], [2], {})])
    b.batch.allow_only("long", [5], 10)
    b.batch.refresh_metadata()
    assert b.batch.req_ids == ("d", "long")
    assert b.batch.sampling.forbidden.sum(axis=1).tolist() == [0, 9]


STEP = st.tuples(
    st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5),  # who runs
    st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=2),  # who finishes
    st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=2),  # who is preempted
    st.lists(st.integers(1, 4), min_size=8, max_size=8),  # tokens of each
)


@pytest.mark.parametrize(
    ("batch_state", "commit"),
    [("stable_slots", "staged"), ("stable_slots", "full"), ("persistent", "staged"), ("persistent", "dirty_rows"),
     ("rebuild", "full")],
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=12), seed=st.integers(0, 9))
def test_random_lives_against_a_dictionary(batch_state, commit, steps, seed):
    bench, life = Bench(batch_state, commit), Life(seed)
    for running, finishing, preempted, counts in steps:
        life.step(bench, running, finishing, preempted, counts)


class Life:
    """A slow scheduler and the truth about its requests: tokens, blocks, counts."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.known = {}
        self.next_block = 1

    def step(self, bench, running, finishing, preempted, counts):
        finished = [name for name in finishing if self.known.pop(name, None)]
        preempted = [name for name in preempted if name in self.known and name not in running]
        for name in preempted:
            self.known[name] |= {"computed": 0, "blocks": [], "away": True, "resident": False}
        delta = {"new": [], "cached": [], "resumed": [], "history": {}}
        counts = dict(zip(running, counts, strict=False))
        scheduled = {name: count for name, count in counts.items() if self.schedule(name, count, delta)}
        if bench.batch.leaves_when_unscheduled:
            for name, one in self.known.items():
                one["resident"] = name in scheduled
        bench.update(scheduled, finished=finished, preempted=preempted, **delta)
        self.check(bench, scheduled)
        bench.state.commit_tokens(StepResult(bench.step - 1, self.sample(scheduled)))

    def schedule(self, name, count, delta):
        """Whether `name` runs with `count` tokens; it is told in the delta."""
        one = self.known.get(name)
        if not (one and one["resident"]) and sum(other["resident"] for other in self.known.values()) == ROWS:
            return False
        if one is None:
            one = self.known[name] = {
                "tokens": self.rng.integers(1, 99, size=8).tolist(), "blocks": [], "computed": 0, "away": False,
                "temperature": float(self.rng.integers(0, 2)), "resident": True,
            }  # fmt: skip
            delta["new"].append((name, one["tokens"], self.grow(one, count), {"temperature": one["temperature"]}))
            return True
        if one["computed"] + count > len(one["tokens"]):
            return False
        delta["cached"].append((name, one["computed"], self.grow(one, count) or None))
        if one["away"]:
            delta["resumed"].append(name)
        if not one["resident"]:
            delta["history"][name] = list(one["tokens"])
        one |= {"away": False, "resident": True}
        return True

    def sample(self, scheduled):
        sampled = {}
        for name, count in scheduled.items():
            one = self.known[name]
            one["computed"] += count
            if one["computed"] == len(one["tokens"]) < LENGTH:
                sampled[name] = (int(self.rng.integers(1, 99)),)
                one["tokens"].append(sampled[name][0])
        return sampled

    def grow(self, one, count):
        need = -(-(one["computed"] + count) // BLOCK) - len(one["blocks"])
        added = list(range(self.next_block, self.next_block + max(need, 0)))
        self.next_block += len(added)
        one["blocks"] += added
        return added

    def check(self, bench, scheduled):
        batch, table = bench.batch, bench.table()
        assert set(batch.req_ids) == scheduled.keys()
        assert batch.scheduled(scheduled).tolist() == [scheduled[name] for name in batch.req_ids]
        columns = np.arange(ROWS)[batch.rows]
        assert [batch.row_of[name] for name in batch.req_ids] == columns.tolist()
        for place, (name, column) in enumerate(zip(batch.req_ids, columns.tolist(), strict=True)):
            one = self.known[name]
            assert batch.token_ids.values[column, : batch.num_tokens[column]].tolist() == one["tokens"]
            assert batch.num_computed[column] == one["computed"]
            assert batch.sampling.temperature[place] == one["temperature"]
            assert table[place] == one["blocks"] + [0] * (LENGTH // BLOCK - len(one["blocks"]))
        assert not np.any(table[len(scheduled) :])
        if isinstance(batch, SlotBatch):
            assert batch.row_of.keys() == {name for name, one in self.known.items() if one["resident"]}
