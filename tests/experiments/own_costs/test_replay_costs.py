"""T(padded) and T(actual) of a run's own shapes: which are measured, over which steps, and what is written down."""

from __future__ import annotations

import itertools

import pytest
import torch
from stepscope.experiments.own_costs import rows as own_costs
from stepscope.experiments.own_costs.replays import ReplayCost, measure_replays
from stepscope.experiments.own_costs.rows import bundled_rows, own_rows
from stepscope.experiments.own_costs.shapes import ReplayShape, ReplayTally
from stepscope.experiments.own_costs.step import fill_step, representable
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.recording.schema import TABLES
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.devices.base import GraphKey
from stepscope.runner.devices.calibration import load_calibration
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.model_runner import build_runner

CONFIG = RunnerConfig(
    max_num_seqs=8, max_num_batched_tokens=32, max_model_len=64, num_blocks=40, block_size=4, model="tiny",
    graph_mode="full", capture_sizes=(8, 16),
)  # fmt: skip


def row(table: str, step: int, **values: object) -> tuple[object, ...]:
    return (step, *(values.get(column.name) for column in TABLES[table]))


def ran(step: int, tokens: int, size: int | None, kv: int = 100, *, warmup: bool = False, complete: bool = True):
    """The rows of one step of `tokens` decode requests."""
    return {
        "dispatch": [row("dispatch", step, mode="full" if size else "none", size=size, num_tokens=tokens)],
        "steps": [row("steps", step, num_reqs=tokens, num_prefill=0, kv_tokens_sum=kv, warmup=warmup,
                      complete=complete)],
    }  # fmt: skip


class Meter:
    """A bench that makes each call once and hands out the given times, then 7 ns for ever."""

    device = torch.device("cpu")

    def __init__(self, *times: float) -> None:
        self.times = itertools.chain(times, itertools.repeat(7.0))
        self.blocks: list[int] = []

    def device_ns(self, call, *, inner=6, repeats=5, launch_us=40) -> float:
        call()
        self.blocks.append(inner)
        return next(self.times)

    def event(self) -> Meter:
        return self

    def record(self, stream=None) -> None: ...

    def elapsed_time(self, end) -> float:
        return 0.002

    def drain(self) -> None: ...

    def stream(self) -> None: ...


@pytest.fixture
def make_runner():
    def make(**switches):
        ledger = Ledger()
        device = make_device("cpu", ledger=ledger)
        config = msg_replace(CONFIG, **switches)
        return build_runner(config, device, Probe(ledger, device.clock, marks=device), ledger), config

    return make


def msg_replace(config: RunnerConfig, **changes) -> RunnerConfig:
    return type(config)(**{**{name: getattr(config, name) for name in config.__slots__}, **changes})


def shape(mode="full", size=8, tokens=5, rows=5, prefill=0, kv=50) -> ReplayShape:
    return ReplayShape(mode, size, tokens, rows, prefill, kv, steps=1, share=1.0)


def test_only_what_carries_one_percent_of_the_counted_steps_is_a_shape() -> None:
    # GIVEN 100 steps of 5 tokens, one of 6, warm-up and torn steps of 7, and eager ones
    tally = ReplayTally()
    for step in range(100):
        tally.add(ran(step, 5, 8, kv=step))
    tally.add(ran(200, 6, 8))
    tally.add(ran(201, 7, 8, warmup=True))
    tally.add(ran(202, 7, 8, complete=False))
    tally.add(ran(203, 30, None))
    # THEN 6 tokens (1 of 102) are no shape, and 5 tokens stand at their median step
    (found,) = tally.shapes()
    assert (found.size, found.tokens, found.steps, found.kv_tokens) == (8, 5, 100, 49)
    assert found.share == 100 / 102
    assert [item.tokens for item in tally.shapes(least_share=0.0)] == [5, 6]


def test_the_tally_hands_the_ledgers_rows_on() -> None:
    ledger, tally = Ledger(), ReplayTally()
    ledger.rows["dispatch"] += ran(3, 5, 8)["dispatch"]
    ledger.rows["steps"] += ran(3, 5, 8)["steps"]
    taken = tally.take(ledger)
    assert [entry[0] for entry in taken["steps"]] == [3]
    assert ledger.rows["steps"] == []
    assert len(tally.shapes()) == 1


def test_a_rebuilt_step_has_the_rows_tokens_and_kv_of_the_shape(make_runner) -> None:
    runner, config = make_runner()
    containers = runner.inputs.containers
    wanted = shape(tokens=11, rows=5, prefill=2, kv=47)
    inputs = fill_step(containers, wanted, config.num_blocks, resolve_groups(config))
    assert inputs.num_scheduled.tolist() == [1, 1, 1, 4, 4]
    assert (int(inputs.seq_lens.sum()), inputs.is_prefilling.tolist()) == (47, [False] * 3 + [True] * 2)
    assert containers.query_start_loc.tolist() == [0, 1, 2, 3, 7, 11, 11, 11, 11]
    assert containers.seq_lens.tolist() == [9, 9, 9, 10, 10, 0, 0, 0]
    assert containers.positions[:11].tolist() == [8, 8, 8, 6, 7, 8, 9, 6, 7, 8, 9]
    used = containers.block_table[containers.block_table > 0]
    assert len(used) == len(used.unique()) == 15  # no two rows share a block
    slots = containers.slot_mapping
    assert len(slots[:11].unique()) == 11
    assert int(slots[:11].min()) >= config.block_size  # never the null block
    assert slots[11:].tolist() == [-1] * 21


def test_a_rebuilt_step_fills_every_group_in_kernel_blocks(make_runner) -> None:
    runner, config = make_runner(kv_groups=("full", "window=8/16"), block_size=8, kernel_block_size=4)
    containers = runner.inputs.containers
    fill_step(containers, shape(tokens=3, rows=3, kv=30), config.num_blocks, resolve_groups(config))
    for group, first in zip(containers.groups, (2, 4), strict=True):  # the first kernel blocks behind the null block
        assert group.block_table[:3, :3].flatten().tolist() == list(range(first, first + 9))
        assert group.slots[:3].tolist() == [4 * block + 1 for block in (first + 2, first + 5, first + 8)]


def test_a_rebuilt_step_deals_its_slots_to_ranks(make_runner) -> None:
    runner, config = make_runner(dcp=2, dcp_interleave=2, block_size=4)
    containers = runner.inputs.containers
    fill_step(containers, shape(tokens=3, rows=3, kv=30), config.num_blocks, resolve_groups(config))
    assert containers.block_table[:3, :2].flatten().tolist() == list(range(1, 7))
    # the tenth token of a row is the second in its second block of eight: the first rank's
    assert containers.slot_mapping[:, :3].tolist() == [[4 * block + 1 for block in (2, 4, 6)], [-1] * 3]


def test_kv_beyond_the_cache_reuses_blocks_and_never_the_null_block(make_runner) -> None:
    runner, config = make_runner()
    wanted = shape(tokens=8, rows=8, kv=8 * 64)
    fill_step(runner.inputs.containers, wanted, config.num_blocks, resolve_groups(config))
    table = runner.inputs.containers.block_table
    assert int(table[:8, :16].min()) == 1
    assert int(table.max()) == config.num_blocks - 1


def test_steps_with_rows_that_have_no_token_are_not_rebuilt() -> None:
    assert not representable(shape(tokens=4, rows=5))
    assert not representable(shape(tokens=4, rows=0))


@pytest.mark.parametrize("mode", ["full", "piecewise"])
@pytest.mark.parametrize("step", [(5, 5, 0), (11, 4, 2)])
def test_padded_and_actual_size_compute_the_same_step(make_runner, mode, step) -> None:
    # GIVEN both graphs of one rebuilt step
    tokens, rows, prefill = step
    wanted = shape(mode=mode, size=8 if tokens <= 8 else 16, tokens=tokens, rows=rows, prefill=prefill)
    runner, config = make_runner(graph_mode=mode)
    seen = []
    run = runner.executor.run

    def watched(plan, inputs, metadata):
        hidden = run(plan, inputs, metadata)
        seen.append((plan.mode, plan.padded_tokens, hidden[:tokens].clone()))
        return hidden

    runner.executor.run = watched
    # WHEN they are measured
    measure_replays(runner, config, Meter(), [wanted])
    # THEN padded, actual and eager ran, with the same hidden states for the real tokens
    assert {(ran_as, size) for ran_as, size, _ in seen} == {(mode, wanted.size), (mode, tokens), ("none", tokens)}
    for _, _, hidden in seen[1:]:
        assert torch.allclose(hidden, seen[0][2], atol=1e-4)


def test_sizes_take_turns_and_medians_are_kept(make_runner) -> None:
    runner, config = make_runner()
    # the first look: 0.5 ms, so that four replays make a block; then P A A P three times
    meter = Meter(500_000.0, *(900, 800, 802, 904), *(902, 801, 5000, 5000), *(901, 799, 800, 903))
    (found,) = measure_replays(runner, config, meter, [shape()])
    assert (found.padded_ns, found.actual_ns) == (902, 800)
    assert found.eager_ns == 2000
    assert meter.blocks == [2] + [4] * 12


def test_an_actual_size_that_was_captured_is_measured_once(make_runner) -> None:
    runner, config = make_runner()
    (found,) = measure_replays(runner, config, Meter(500_000.0, 640, 641), [shape(size=8, tokens=8, rows=8)])
    assert found.padded_ns == found.actual_ns


def test_actual_sizes_are_captured_largest_first(make_runner) -> None:
    runner, config = make_runner()
    captured = []
    capture = runner.device.capture
    runner.device.capture = lambda key, fn: (captured.append(key), capture(key, fn))[1]
    measure_replays(runner, config, Meter(), [shape(tokens=5), shape(size=16, tokens=11, rows=8), shape(tokens=5)])
    assert captured == [GraphKey("full", 11, 8), GraphKey("full", 5, 5)]


@pytest.mark.parametrize("mode", ["full_decode_only", "full_and_piecewise", "full"])
@pytest.mark.parametrize("rules", ["v1", "v2"])
def test_graphs_of_decodes_with_drafts_are_those_of_the_runner(make_runner, mode, rules) -> None:
    # GIVEN a runner whose decodes have three tokens, so that its graph of 12 tokens has four rows where it is for them
    drafts = {"speculative": 2, "capture_sizes": (6, 12), "max_num_seqs": 4, "dispatch_rules": rules}
    runner, config = make_runner(graph_mode=mode, **drafts)
    captured = []
    capture = runner.device.capture
    runner.device.capture = lambda key, fn: (captured.append(key), capture(key, fn))[1]
    # WHEN three decodes that ran in it are measured
    (found,) = measure_replays(runner, config, Meter(), [shape(size=12, tokens=9, rows=3, kv=60)])
    # THEN in that graph, and in one of their own size with as many rows as they are there
    assert captured == [GraphKey("full", 9, 4 if mode == "full" else 3)]
    assert (found.shape.size, found.shape.tokens) == (12, 9)


def test_rows_are_keyed_by_mode_size_and_tokens() -> None:
    costs = [
        ReplayCost(shape(), 900, 800, 2000, "p", "a"),
        ReplayCost(shape(tokens=8, rows=8), 910, 910, 2100, "p", "p"),
    ]
    rows = own_rows(costs, ("G", "d", "2026-01-02", own_costs.SOURCE))
    assert {(name, key): (value, kernels) for name, key, value, _, _, _, _, _, kernels in rows} == {
        ("replay_ns", "full/8/5"): (900.0, "p"),
        ("replay_ns", "full/5/5"): (800.0, "a"),
        ("eager_ns", "full/8/5"): (2000.0, None),
        ("replay_ns", "full/8/8"): (910.0, "p"),
        ("eager_ns", "full/8/8"): (2100.0, None),
    }
    assert {entry[3:8] for entry in rows} == {("ns", "G", "d", "2026-01-02", own_costs.SOURCE)}


def test_curves_come_only_with_their_model_constants_only_with_their_gpu() -> None:
    known = load_calibration("h200")
    names = {entry[0] for entry in bundled_rows(known.gpu, "llama-1b")}
    assert {"graph_ns", "eager_span_ns", "event_bias_ns"} <= names
    others = {entry[0] for entry in bundled_rows(known.gpu, "tiny")}
    assert "event_bias_ns" in others
    assert "graph_ns" not in others
    assert bundled_rows("Another GPU", "llama-1b") == []


def copied(size: int, *, buffer: str = "block_table", src_kind: str = "pinned"):
    return row("copies", 0, buffer=buffer, size_bytes=size, src_kind=src_kind)


def test_the_usual_copy_is_the_most_frequent_one_from_page_locked_memory():
    tally = ReplayTally()
    assert tally.usual_copy_bytes("block_table") is None
    tally.add({"copies": [copied(64), copied(96), copied(96), copied(8, buffer="ids"), copied(8, buffer="ids")]})
    tally.add({"copies": [copied(128, src_kind="pageable")] * 4})
    assert tally.usual_copy_bytes("block_table") == 96
    assert tally.usual_copy_bytes("ids") == 8


def test_a_copy_is_timed_among_its_like_and_the_summary_finds_it(monkeypatch):
    # GIVEN a bench that says 153.7 us
    class Copies(Meter):
        def pinned(self, size_bytes: int) -> torch.Tensor:
            return torch.ones(size_bytes, dtype=torch.uint8)

    bench = Copies(153_700.4)
    monkeypatch.setattr(own_costs, "GpuBench", lambda: bench)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "G")
    tally = ReplayTally()
    assert own_costs.copy_rows(tally, "d") == []
    tally.add({"copies": [copied(96)]})
    (found,) = own_costs.copy_rows(tally, "d")
    assert found[:6] == ("own_copy_ns", "block_table/96", 153_700.0, "ns", "G", "d")
    assert bench.blocks == [20]


def test_no_memory_for_one_more_copy_is_no_row(monkeypatch):
    class Full(Meter):
        def pinned(self, size_bytes: int) -> torch.Tensor:
            raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(own_costs, "GpuBench", Full)
    tally = ReplayTally()
    tally.add({"copies": [copied(96)]})
    assert own_costs.copy_rows(tally, "d") == []
