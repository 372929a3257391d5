"""Host preparation beside vLLM's, in one process, in turns:

    VLLM_SRC=DIR python benchmarks/prepare_against_vllm.py --peers DIR [--out FILE.json] [--set batch_state=VALUE ...]

VLLM_SRC is the folder that holds `vllm/` (the wheel of 0.33.0, unzipped: nothing of it is installed or run but its
Python functions); --peers holds time_vllm_preprocess.py and its loader. What counts is the CPU time of the thread from
the scheduler's message to the last input: state update and input preparation, no attention metadata, no dispatch.

Both sides get the same messages: the peer's toy scheduler makes them, ours are translated outside the clock, except
that our arrays of the new prompts are made from the peer's lists within it. Both sides keep their launcher of the slot
mapping kernel, whose body does nothing; copies are memcpy. Ours runs the code of a GPU's pinned ring, on ordinary
memory, and writes its ledger. vLLM V2's other launches cost nothing here, so its figures are a lower bound.

One block is --steps steps of a fresh runner behind its warm-up; blocks go ours V1 V2 | V2 V1 ours | ..., each step's
time is kept, and a ratio is one of block medians within a round.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.buffers import table_kernels
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs import slot_kernel, slot_mapping
from stepscope.runner.model_runner import ModelRunner, build_runner
from stepscope.workloads.step import CachedRequests, NewRequest, StepDelta, StepResult

Block = dict[str, list[float]]
"""Column -> one figure a step in us; `total_cpu` is what counts."""
COLUMNS = {"ours": ("update", "prepare"), "v1": ("update", "tokens_np", "prepare"),
           "v2": ("update", "gather", "prepare", "attn")}  # fmt: skip
SIDES = tuple(COLUMNS)


class NoKernel:
    """In the place of the Triton kernel and of what it compiles to: a launch does nothing."""

    def warmup(self, *operands: object, **options: object) -> NoKernel:
        """Compiled."""
        return self

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self.run

    def run(self, *operands: object, **constants: object) -> None:
        """Nothing."""


class NoTableKernels:
    """In the place of the kernels that keep block tables on the device (block_table_commit staged, batch_state
    stable_slots): their launches stay, their bodies do nothing, as on the other side.
    """

    def scatter(self, *operands: object) -> None:
        """Nothing."""

    def gather(self, *operands: object) -> None:
        """Nothing."""


class RingDevice(CpuDevice):
    """A device without a GPU whose buffers are staged as on one."""

    pinned = True
    pinned_reason = ""

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return True


def our_runner(size: int, switches: dict[str, Any]) -> ModelRunner:
    ledger = Ledger()
    config = RunnerConfig(
        max_num_seqs=max(size, 1024), max_num_batched_tokens=16384, max_model_len=4096, num_blocks=2, **switches
    )
    return build_runner(config, RingDevice(ledger), NullProbe(), ledger)


def translated(message: Any, step: int, prompts: Sequence[np.ndarray]) -> StepDelta:  # type: ignore[type-arg]
    """The peer's SchedulerOutput as our delta."""
    cached = message.scheduled_cached_reqs
    arriving = zip(message.scheduled_new_reqs, prompts, strict=True)
    return StepDelta(
        step,
        tuple(NewRequest(new.req_id, prompt, tuple(map(tuple, new.block_ids))) for new, prompt in arriving),
        CachedRequests(
            tuple(cached.req_ids),
            tuple(None if blocks is None else tuple(map(tuple, blocks)) for blocks in cached.new_block_ids),
            tuple(cached.num_computed_tokens),
            tuple(cached.num_output_tokens),
        ),
        message.num_scheduled_tokens,
        frozenset(message.finished_req_ids),
    )


def run_ours(peer: Any, size: int, scenario: str, switches: dict[str, Any]) -> Block:
    """One block of ours; columns as COLUMNS["ours"], and `bookkeep`."""
    runner, found = our_runner(size, switches), {name: [] for name in (*COLUMNS["ours"], "bookkeep", "total_cpu")}
    feed = peer.Sim(size, max(1, size // 64) if scenario == "churn" else 0)
    wall, cpu, ramp = time.perf_counter_ns, time.thread_time_ns, size // 50 + 2
    for number in range(ramp + peer.args.warmup + peer.args.steps):
        message = feed.step()
        c0 = cpu()
        prompts = [np.asarray(new.prompt_token_ids, dtype=np.int32) for new in message.scheduled_new_reqs]
        c1 = cpu()
        delta = translated(message, number, prompts)
        c2, t2 = cpu(), wall()
        runner.state.update(delta)
        t3 = wall()
        inputs = runner.inputs.finish(runner.state.batch, runner.inputs.prepare(runner.state.batch, delta))
        t4, c4 = wall(), cpu()
        runner.inputs.forward_enqueued()
        runner.inputs.sampling_enqueued()
        result = StepResult(number, {req_id: (7,) for req_id in inputs.req_ids})
        t5 = wall()
        runner.state.commit_tokens(result)
        t6 = wall()
        if number >= ramp + peer.args.warmup:
            for name, spent_ns in (
                ("update", t3 - t2), ("prepare", t4 - t3), ("bookkeep", t6 - t5), ("total_cpu", c4 - c2 + c1 - c0),
            ):  # fmt: skip
                found[name].append(spent_ns / 1e3)
    return found


def load_peer(folder: Path, steps: int, warmup: int) -> Any:
    """The peer's timer as a module; it reads its options on import."""
    if not os.environ.get("VLLM_SRC"):
        raise SystemExit("set VLLM_SRC to the folder that holds vllm/ (the wheel, unzipped)")
    sys.path.insert(0, str(folder))
    kept, sys.argv = sys.argv, ["peer", "--steps", str(steps), "--warmup", str(warmup)]
    try:
        return importlib.import_module("time_vllm_preprocess")
    finally:
        sys.argv = kept


def rounds(peer: Any, size: int, scenario: str, options: argparse.Namespace) -> list[dict[str, Block]]:
    """All blocks of one row of the table, in turns."""
    switches = dict(entry.split("=", 1) for entry in options.set)
    sides: dict[str, Callable[[], Block]] = {
        "ours": lambda: run_ours(peer, size, scenario, switches),
        "v1": lambda: peer.run_v1(size, scenario),
        "v2": lambda: peer.run_v2(size, scenario),
    }
    found = []
    for number in range(options.rounds):
        blocks: dict[str, Block] = {}
        for name in SIDES if number % 2 == 0 else SIDES[::-1]:
            gc.collect()
            gc.disable()
            blocks[name] = sides[name]()
            gc.enable()
        found.append(blocks)
    return found


def summary(blocks: Sequence[dict[str, Block]]) -> dict[str, Any]:
    """Medians over rounds of block medians, and the ratios of the rounds."""
    totals = {side: [statistics.median(one[side]["total_cpu"]) for one in blocks] for side in SIDES}
    ratios = {
        side: [ours / other for ours, other in zip(totals["ours"], totals[side], strict=True)] for side in ("v1", "v2")
    }
    stages = {
        side: {
            name: round(statistics.median(statistics.median(one[side][name]) for one in blocks), 1)
            for name in (*COLUMNS[side], *(("bookkeep",) if side != "v2" else ()))
        }
        for side in SIDES
    }
    return {
        "cpu_us": {side: round(statistics.median(values), 1) for side, values in totals.items()},
        "ratio": {
            side: [round(pick(values), 3) for pick in (statistics.median, min, max)] for side, values in ratios.items()
        },
        "stages_us": stages,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 64, 256, 1024])
    parser.add_argument("--scenarios", nargs="+", choices=["steady", "churn"], default=["steady", "churn"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], metavar="SWITCH=VALUE", help="switches of our runner")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    slot_kernel._slot_kernel = NoKernel()  # type: ignore[assignment]  # the launcher stays, as on the other side
    slot_mapping.KernelStandIn = slot_mapping.TritonSlotMapper  # type: ignore[misc, assignment]
    table_kernels.HostTableKernels = NoTableKernels  # type: ignore[misc, assignment]
    peer = load_peer(options.peers, options.steps, options.warmup)
    raw: dict[str, Any] = {"made_with": facts(peer, options), "rows": []}
    print(f"{'':8}{'R':>5}{'ours':>9}{'V1':>9}{'V2':>9}  ours/V1 (min..max)    ours/V2 (min..max)")
    for scenario in options.scenarios:
        for size in options.sizes:
            blocks = rounds(peer, size, scenario, options)
            row = {"scenario": scenario, "requests": size, "load": os.getloadavg()[0], **summary(blocks)}
            kept = [{side: [round(us, 1) for us in one[side]["total_cpu"]] for side in SIDES} for one in blocks]
            raw["rows"].append({**row, "steps_cpu_us": kept})
            print_row(row)
    if options.out:
        options.out.write_text(json.dumps(raw) + "\n")


def print_row(row: dict[str, Any]) -> None:
    cpu = "".join(f"{row['cpu_us'][side]:>9.1f}" for side in SIDES)
    ratios = "".join("   {:.2f} ({:.2f}..{:.2f})  ".format(*row["ratio"][side]) for side in ("v1", "v2"))
    print(f"{row['scenario']:8}{row['requests']:>5}{cpu}{ratios}", flush=True)


def facts(peer: Any, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "vllm": peer.L.version(), "torch": torch.__version__, "numpy": np.__version__,
        "python": sys.version.split()[0], "cores": os.cpu_count(), "rounds": options.rounds, "steps": options.steps,
        "warmup": options.warmup, "switches": options.set,
    }  # fmt: skip


if __name__ == "__main__":
    main()
