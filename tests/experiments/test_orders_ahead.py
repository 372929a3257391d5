"""Commit orders with two steps in flight, in declared time: what a copy of 8 MiB costs on which stream, to the ns."""

from __future__ import annotations

from stepscope.experiments.loop import LoopLimits, StepLoop
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.devices.sim_clock import DeclaredHost
from stepscope.runner.model_runner import build_runner
from stepscope.workloads.regimes import build

ROWS, WIDTH = 256, 8192
HOST = {"update_states": 20_000, "build_indices": 60_000, "schedule": 30_000, "update_from_output": 40_000}


def period_and_copy(
    order: str, stream: str = "compute", buffers: str = "single_guarded", handoff: str = "async_auto",
    slots: str = "triton",
) -> tuple[int, int]:
    """(period of a steady device-bound decode step, duration of the table's copy or 0 without one)."""
    workload = build(
        "steady", seed=0, vocab_size=512, num_reqs=ROWS, prompt_len=8, output_len=14, max_num_batched_tokens=2048,
        max_model_len=64, reserve_output=True, async_scheduling=handoff != "sync",
    )  # fmt: skip
    config = RunnerConfig(
        model="micro", max_num_seqs=ROWS, max_num_batched_tokens=2048, max_model_len=64, table_width=WIDTH,
        num_blocks=workload.scheduler.num_blocks, graph_mode="full_decode_only", capture_sizes=(ROWS,),
        commit_order=order, copy_stream=stream, device_buffers=buffers, token_handoff=handoff, slot_mapping=slots,
    )  # fmt: skip
    ledger = Ledger()
    device = make_device("sim", ledger=ledger, host=DeclaredHost(HOST))
    probe = Probe(ledger, device.clock, marks=device)
    loop = StepLoop(workload, build_runner(config, device, probe, ledger), probe, device)
    loop.run(LoopLimits(steps=13))
    graphs = [row for row in ledger.rows["spans"] if row[1] == "gpu:compute" and row[3] == "graph"]
    assert len(graphs) > 8
    assert min(row[6] - row[5] for row in graphs) > 500_000
    starts = [row[1] for row in ledger.rows["steps"]]
    copies = {row[11] - row[10] for row in ledger.rows["copies"] if row[6] == "block_table" and row[0] > 8}
    # attention grows with the context, by the same few ns in every arm: the same step is compared
    return starts[-3] - starts[-4], copies.pop() if copies else 0


def test_on_the_compute_stream_the_order_is_worth_nothing_and_all_of_the_copy_is_exposed() -> None:
    first, copy = period_and_copy("first")
    assert copy > 100_000
    assert period_and_copy("last") == (first, copy)
    assert first - period_and_copy("skip")[0] == copy


def test_two_sets_of_device_buffers_hide_it() -> None:
    first, copy = period_and_copy("first", "dedicated", "double")
    assert first - period_and_copy("skip", "dedicated", "double")[0] <= 0.1 * copy


def test_one_guarded_set_does_not() -> None:
    # GIVEN slots that are mapped on the host: then the sampler is the last reader of what is copied, and the copy has
    # nothing left to run beside
    first, copy = period_and_copy("first", "dedicated", "single_guarded", slots="host")
    assert first - period_and_copy("skip", "dedicated", "single_guarded", slots="host")[0] >= 0.9 * copy


def test_one_guarded_set_hides_what_runs_behind_its_last_reader() -> None:
    # GIVEN the forward as the last reader: LM head and sampling are behind it, and here longer than the copy
    first, copy = period_and_copy("first", "dedicated", "single_guarded")
    assert copy > 100_000
    assert first == period_and_copy("skip", "dedicated", "single_guarded")[0]


def test_one_step_at_a_time_the_order_is_worth_something() -> None:
    first, copy = period_and_copy("first", handoff="sync")
    assert period_and_copy("last", handoff="sync")[0] - first > 50_000
    assert first - period_and_copy("skip", handoff="sync")[0] < 0.6 * copy
