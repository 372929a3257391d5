"""Host time of the preprocess phase, step by step, on this machine's CPU: `python benchmarks/prepare_cost.py`.

    steady   R requests decode one token each; every request gets a block each 16 steps, staggered
    churn    max(1, R // 64) requests finish and as many prompts of 128..143 tokens join in each step

Device `cpu`: copies are memcpy and slot mapping is computed by a stand-in, so its cost here is host work that a GPU
would do instead. `bookkeep` is the tokens' way into the state, after sampling. For the comparison with vLLM, with the
kernel's launcher instead of its stand-in, see prepare_against_vllm.py.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time

import numpy as np
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices import make_device
from stepscope.runner.model_runner import ModelRunner, build_runner
from stepscope.workloads.step import CachedRequests, NewRequest, StepDelta, StepResult

BLOCK = 16
STAGES = ("update", "prepare", "dispatch", "metadata", "bookkeep")


class Feed:
    """Deltas of a batch whose requests are always `size` in number."""

    def __init__(self, size: int, churn: int, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.size = size
        self.churn = churn
        self.step = 0
        self.born = 0
        self.length: dict[str, int] = {}  # computed tokens
        self.blocks: dict[str, int] = {}
        self.next_block = 1

    def delta(self) -> StepDelta:
        leaving = self.random.sample(sorted(self.length), self.churn) if self.step else []
        for req_id in leaving:
            del self.length[req_id], self.blocks[req_id]
        ids = tuple(self.length)
        computed = tuple(self.length[req_id] for req_id in ids)
        new_blocks = tuple(self.grow(req_id, self.length[req_id] + 1) for req_id in ids)
        scheduled = dict.fromkeys(ids, 1)
        new = tuple(self.arrive(scheduled) for _ in range(self.size - len(ids)))
        cached = CachedRequests(ids, new_blocks, computed, (0,) * len(ids))
        delta = StepDelta(self.step, new, cached, scheduled, frozenset(leaving))
        for req_id, count in scheduled.items():
            self.length[req_id] = self.length.get(req_id, 0) + count
        self.step += 1
        return delta

    def arrive(self, scheduled: dict[str, int]) -> NewRequest:
        req_id = f"request-{self.born}"
        prompt = np.full(128 + self.born % BLOCK, self.born % 100, dtype=np.int32)
        self.born += 1
        self.blocks[req_id] = 0
        blocks = self.grow(req_id, prompt.size)
        scheduled[req_id] = prompt.size
        return NewRequest(req_id, prompt, blocks or ((),))

    def grow(self, req_id: str, tokens: int) -> tuple[tuple[int, ...], ...] | None:
        need = -(-tokens // BLOCK) - self.blocks[req_id]
        if need <= 0:
            return None
        self.blocks[req_id] += need
        first, self.next_block = self.next_block, self.next_block + need
        return (tuple(range(first, first + need)),)


def make_runner(size: int, max_model_len: int) -> ModelRunner:
    ledger = Ledger()
    config = RunnerConfig(
        max_num_seqs=max(size, 1024), max_num_batched_tokens=max(16384, size * 144), max_model_len=max_model_len,
        num_blocks=2,
    )  # fmt: skip
    return build_runner(config, make_device("cpu", ledger=ledger), NullProbe(), ledger)


def measure(size: int, churn: int, steps: int, max_model_len: int = 4096) -> dict[str, list[int]]:
    """Nanoseconds a stage and step; nothing runs a model, sampled tokens are made up."""
    runner, feed = make_runner(size, max_model_len), Feed(size, churn)
    times: dict[str, list[int]] = {name: [] for name in STAGES}
    clock = time.perf_counter_ns
    gc.collect()
    gc.disable()
    for number in range(steps + 20):
        delta = feed.delta()
        t0 = clock()
        runner.state.update(delta)
        t1 = clock()
        early = runner.dispatcher.before(runner.state.batch, delta)
        t1b = clock()
        inputs = runner.inputs.prepare(runner.state.batch, delta)
        t2 = clock()
        plan = runner.dispatcher.after(inputs, early)
        t3 = clock()
        runner.metadata.build(inputs, plan)
        inputs = runner.inputs.finish(runner.state.batch, inputs)
        t4 = clock()
        result = StepResult(delta.step, {req_id: (7,) for req_id in inputs.req_ids})
        t5 = clock()
        runner.state.commit_tokens(result)
        t6 = clock()
        if number >= 20:  # warm-up
            for name, spent in zip(STAGES, (t1 - t0, t2 - t1b, t3 - t2 + t1b - t1, t4 - t3, t6 - t5), strict=True):
                times[name].append(spent)
    gc.enable()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--scenario", choices=["steady", "churn"], default="steady")
    parser.add_argument("--max-model-len", type=int, default=4096)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'R':>5}" + "".join(f"{name:>10}" for name in (*STAGES, "total", "total_p10")))
    for size in options.sizes:
        churn = max(1, size // 64) if options.scenario == "churn" else 0
        times = measure(size, churn, options.steps, options.max_model_len)
        medians = [statistics.median(times[name]) / 1e3 for name in STAGES]
        totals = [a + b for a, b in zip(times["update"], times["prepare"], strict=True)]
        total, low = statistics.median(totals) / 1e3, float(np.quantile(totals, 0.1)) / 1e3
        print(f"{size:>5}" + "".join(f"{value:>10.1f}" for value in (*medians, total, low)))


if __name__ == "__main__":
    main()
