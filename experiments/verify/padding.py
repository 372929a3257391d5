"""Checks of padding and of the optimiser of capture sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ...analysis.padding import padding
from ...analysis.sizes.costs import SizesLimits, problem_of
from ...analysis.sizes.judgement import judge_arm, predicted_gain
from ...analysis.sizes.solve import SizesProblem, solve_sizes
from ...analysis.sizes.stream import SizesStream, split_stream
from ...errors import UsageError
from ...instrumentation.capture_sizes import vllm_ladder
from ..sizing.optimal import calibration_table, sizes_costs
from .check import Check, Finding, Setting, exact, replaced, within

LADDER = vllm_ladder(256, 2048)


def _optimum(setting: Setting) -> Sequence[Finding]:
    """Capture sizes against the best of all subsets, with forced sizes, multiples and limits; time of a large case."""
    rng = np.random.default_rng(setting.random("optimum").getrandbits(64))
    count = setting.count(2_000, 150)
    worse = 0
    for _ in range(count):
        problem = random_problem(rng)
        least = least_of_all(problem)
        try:
            worse += solve_sizes(problem).cost_ns != least
        except UsageError:
            worse += least is not None
    sizes = np.arange(1, 513)
    large = SizesProblem(
        tokens=sizes, steps=rng.integers(0, 1000, 512), eager_ns=np.full(512, 4_300_000), candidates=sizes,
        graph_ns=800_000 + 2000 * sizes + rng.integers(0, 60_000, 512), forced=sizes == 512, max_graphs=51,
    )  # fmt: skip
    began = time.process_time()
    solve_sizes(large)
    took = time.process_time() - began
    return [
        exact(f"{count} random cases of up to 12 candidates: not the least cost of all subsets", 0, worse),
        within("512 candidates, 51 graphs: processor time", took, 0.0, 1.0, "s"),
    ]


def random_problem(rng: np.random.Generator) -> SizesProblem:
    """Times in no order at all, multiples, forced sizes, a limit now and then."""
    count, multiple = int(rng.integers(1, 13)), int(rng.choice([1, 1, 2, 4]))
    candidates = np.sort(rng.choice(np.arange(1, 25), size=count, replace=False)) * multiple
    tokens = np.sort(rng.choice(np.arange(1, 30 * multiple), size=int(rng.integers(1, 12)), replace=False))
    return SizesProblem(
        tokens=tokens, steps=rng.integers(0, 50, len(tokens)), eager_ns=rng.integers(1, 200, len(tokens)),
        candidates=candidates, graph_ns=rng.integers(1, 100, count), forced=rng.random(count) < rng.choice([0.0, 0.2]),
        max_graphs=int(rng.integers(0, count + 1)) if rng.random() < 0.7 else None,
    )  # fmt: skip


def least_of_all(problem: SizesProblem) -> int | None:
    """The least cost over all subsets, each step by the engine's rule; None where the limit allows none."""
    count = len(problem.candidates)
    chosen = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 == 1
    allowed = chosen[:, problem.forced].all(axis=1)
    if problem.max_graphs is not None:
        allowed &= chosen.sum(axis=1) <= problem.max_graphs
    chosen = chosen[allowed]
    cost = np.zeros(len(chosen), dtype=np.int64)
    for tokens, steps, eager_ns in zip(problem.tokens, problem.steps, problem.eager_ns, strict=True):
        time_ns = np.full(len(chosen), eager_ns)
        for at in reversed(range(count)):
            if problem.candidates[at] >= tokens:
                time_ns = np.where(chosen[:, at], problem.graph_ns[at], time_ns)
        cost += steps * time_ns
    return int(cost.min()) if len(cost) else None


def _held_out(setting: Setting) -> Sequence[Finding]:
    """Sizes chosen by the first half of a load that drifts and jumps, judged on its second half."""
    rng = np.random.default_rng(setting.random("held_out").getrandbits(64))
    costs = sizes_costs(calibration_table("h200", "llama-1b"))
    findings = []
    for name, mean, count in (("heavy", 110, 12_000), ("light", 8, 12_000)):
        level = mean * np.exp(np.cumsum(rng.normal(0, 0.02, count)).clip(-0.7, 0.7))
        prefill = np.where(rng.random(count) < 0.05, rng.integers(16, 1500, count), 0)
        tokens = np.maximum(1, rng.poisson(level) + prefill).astype(np.int64)
        stream = SizesStream(tokens, np.arange(count), 0).up_to(512)
        head, rest = split_stream(stream, 0.5)
        best = solve_sizes(problem_of(head, costs, SizesLimits(maximum=512, max_graphs=len(LADDER))))
        ladder, chosen = (judge_arm(arm, sizes, rest, costs) for arm, sizes in (("vllm", LADDER), ("own", best.sizes)))
        gain = predicted_gain(chosen, ladder, rest, costs)
        planted = f"{name} load, {len(rest.tokens)} held-out steps: saving against vLLM's ladder"
        findings.append(within(planted, 100 * gain.share, -1.0, 100.0, "%"))
    return findings


class _Tables:
    def __init__(self, **tables: pd.DataFrame) -> None:
        self._tables = tables

    def table(self, name: str) -> pd.DataFrame:
        return self._tables.get(name, pd.DataFrame())


def _waste(setting: Setting) -> Sequence[Finding]:
    """Padding to a size at which other, faster kernels run is a negative waste, and is not clamped."""
    rng = setting.random("waste")
    times = {size: rng.randint(200, 900) for size in (1, 2, 4, 8, 16)}
    times[8], times[16] = 900, 300  # a dip
    tokens = [rng.choice((5, 6, 7, 8, 9)) for _ in range(50)]
    dispatch = pd.DataFrame({
        "step": range(50), "num_tokens": tokens, "num_reqs": 1, "size": 16, "mode": "full", "reason": "hit",
    })  # fmt: skip
    steps = pd.DataFrame({"step": range(50), "padded_tokens": 16, "warmup": False, "complete": True})
    calibration = pd.DataFrame({
        "name": "graph_ns", "key": [str(size) for size in times], "value": [float(ns) for ns in times.values()],
        "kernel_hash": None,
    })  # fmt: skip
    found = padding(_Tables(steps=steps, dispatch=dispatch, calibration=calibration))
    waste = sum(times[16] - times[8 if count <= 8 else 16] for count in tokens)
    return [
        exact("50 steps padded to a size that is faster: time waste, ns", waste, found.time_waste_ns),
        exact("against the lower envelope", 0, found.envelope_waste_ns),
    ]


CHECKS = (
    Check(
        group="padding", name="optimum", point=11, run=_optimum,
        mutants={
            "as_if_monotone": replaced(
                "analysis.sizes.solve", "links_of",
                lambda whole: lambda problem: whole(
                    replace(problem, graph_ns=np.maximum.accumulate(problem.graph_ns))
                ),
            ),
            "forced_ignored": replaced(
                "analysis.sizes.solve", "links_of",
                lambda whole: lambda problem: whole(replace(problem, forced=np.zeros_like(problem.forced))),
            ),
        },
    ),
    Check(
        group="padding", name="held_out", point=12, run=_held_out,
        mutants={
            "largest_only": replaced(
                "experiments.verify.padding", "solve_sizes",
                lambda whole: lambda problem: whole(replace(problem, max_graphs=1)),
            ),
        },
    ),
    Check(
        group="padding", name="waste", point=12, run=_waste,
        mutants={
            "clamped": replaced(
                "analysis.padding_costs", "total",
                lambda whole: lambda values: max(0, whole(values)),
            ),
        },
    ),
)  # fmt: skip
