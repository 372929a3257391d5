"""T(padded), T(actual) and T(eager) of the shapes that a run replayed, measured on its own runner after its last step.

Both sizes run over the same rows, lengths and blocks, so their difference is what padding costs, attention over padded
rows included. They take turns (padded, actual, actual, padded), and nothing is interpolated: a shape that carries less
than 1 % of the steps has no figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...runner.config import RunnerConfig
from ...runner.devices.base import GraphKey
from ...runner.dispatch_rules import mode_pair
from ...runner.inputs.step_inputs import StepInputs
from ...runner.kv_groups import resolve_groups
from ...runner.model_runner import ModelRunner
from ...runner.plan import ExecutionPlan
from ..calibrate.bench import Bench
from .shapes import ReplayShape
from .step import fill_step, representable

PAIRS = 3
"""Turns of (padded, actual, actual, padded)."""
EAGER_REPEATS = 9
BLOCK_NS = 2_000_000
"""A block of back-to-back replays lasts about this long, or four replays if those take longer."""
MOST_REPLAYS = 20


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """One shape's times. `padded_kernels`, `actual_kernels` are hashes of kernel names, None where not known.

    Piecewise replays include what their launches cost the device, as in a step.
    """

    shape: ReplayShape
    padded_ns: int
    actual_ns: int
    eager_ns: int
    padded_kernels: str | None
    actual_kernels: str | None


def measure_replays(
    runner: ModelRunner, config: RunnerConfig, bench: Bench, shapes: Sequence[ReplayShape]
) -> tuple[ReplayCost, ...]:
    """Costs of all shapes that can be rebuilt. Captures the actual sizes that were not captured.

    The runner must have run its last step: its buffers and its KV cache are overwritten.
    """
    meter = _Meter(runner, config, bench)
    wanted = [shape for shape in shapes if representable(shape)]
    meter.capture(wanted)
    return tuple(meter.cost(shape) for shape in wanted)


def padded_and_actual(
    runner: ModelRunner, config: RunnerConfig, bench: Bench, shape: ReplayShape
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Forwards of a shape in its padded graph and in one of its own size, over the same rows, which stay in the
    runner's buffers until another shape is put there. As `measure_replays`.
    """
    meter = _Meter(runner, config, bench)
    meter.capture([shape])
    _, padded, actual = meter.pair(shape)
    return padded, actual


class _Meter:
    def __init__(self, runner: ModelRunner, config: RunnerConfig, bench: Bench) -> None:
        self._runner = runner
        self._config = config
        self._bench = bench
        self._containers = runner.inputs.containers
        separate = mode_pair(config.graph_mode).separate
        self._row_tokens = config.decode_query_len if separate else 1
        """Least tokens of a row in a full graph: one that only decodes run in has a row for each of them."""

    def capture(self, shapes: Sequence[ReplayShape]) -> None:
        """Graphs of the actual sizes, largest first, so that they share memory."""
        keys = {self._key(shape.mode, shape.tokens) for shape in shapes}
        missing = [key for key in keys if not self._runner.device.captured(key)]
        self._runner.executor.capture_all(sorted(missing, key=lambda key: -key.tokens), self._containers)

    def cost(self, shape: ReplayShape) -> ReplayCost:
        """All three times of one shape."""
        inputs, padded, actual = self.pair(shape)
        padded_ns, actual_ns = self._turns(padded, actual if shape.size != shape.tokens else padded)
        eager = self._forward(inputs, self._eager_plan(shape))
        kernels = {figures.key: figures.kernel_hash for figures in getattr(self._runner.device, "captures", ())}
        names = [kernels.get(self._key(shape.mode, tokens)) for tokens in (shape.size, shape.tokens)]
        return ReplayCost(shape, padded_ns, actual_ns, self._eager_ns(eager), *names)

    def pair(self, shape: ReplayShape) -> tuple[StepInputs, Callable[[], object], Callable[[], object]]:
        """The shape put into the buffers, and its forwards in graphs of the padded and of the actual size."""
        inputs = fill_step(self._containers, shape, self._config.num_blocks, resolve_groups(self._config))
        plans = (self._plan(shape, size) for size in (shape.size, shape.tokens))
        padded, actual = (self._forward(inputs, plan) for plan in plans)
        return inputs, padded, actual

    def _turns(self, padded: Callable[[], object], actual: Callable[[], object]) -> tuple[int, int]:
        """Medians of both, blocks in the order P A A P; one and the same call is measured once and is equal."""
        inner, launch_us = self._block(padded)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(PAIRS):
            for which in (0, 1, 1, 0) if actual is not padded else (0, 0):
                call = (padded, actual)[which]
                times[which].append(self._bench.device_ns(call, inner=inner, repeats=1, launch_us=launch_us))
        padded_ns, actual_ns = times
        return round(statistics.median(padded_ns)), round(statistics.median(actual_ns or padded_ns))

    def _block(self, call: Callable[[], object]) -> tuple[int, int]:
        """(replays in a block, host time allowed for each in us), from a first look."""
        call()
        began_ns = time.perf_counter_ns()
        call()
        launch_us = 2 * (time.perf_counter_ns() - began_ns) // 1000 + 40
        first_ns = self._bench.device_ns(call, inner=2, repeats=1, launch_us=launch_us)
        return min(max(round(BLOCK_NS / max(first_ns, 1.0)), 4), MOST_REPLAYS), launch_us

    def _eager_ns(self, forward: Callable[[], object]) -> int:
        """Median span between events around the eager forward on a drained device: launches included."""
        bench = self._bench
        forward()
        spans: list[float] = []
        for _ in range(EAGER_REPEATS):
            start, end = bench.event(), bench.event()
            bench.drain()
            start.record(bench.stream())
            forward()
            end.record(bench.stream())
            bench.drain()
            spans.append(start.elapsed_time(end) * 1e6)
        return round(statistics.median(spans))

    def _forward(self, inputs: StepInputs, plan: ExecutionPlan) -> Callable[[], torch.Tensor]:
        metadata = self._runner.metadata.build(inputs, plan)
        return lambda: self._runner.executor.run(plan, inputs, metadata)

    def _plan(self, shape: ReplayShape, size: int) -> ExecutionPlan:
        key = self._key(shape.mode, size)
        rows = shape.rows if key.rows is None else key.rows
        return ExecutionPlan(shape.mode, "hit", shape.tokens, shape.rows, size, rows, _uniform(shape), size)

    def _eager_plan(self, shape: ReplayShape) -> ExecutionPlan:
        tokens, rows = shape.tokens, shape.rows
        return ExecutionPlan("none", "disabled", tokens, rows, tokens, rows, _uniform(shape))

    def _key(self, mode: str, tokens: int) -> GraphKey:
        assert mode in ("full", "piecewise"), "an eager step has no graph"
        if mode == "piecewise":
            return GraphKey("piecewise", tokens)
        return GraphKey("full", tokens, min(tokens // self._row_tokens, self._containers.seq_lens.numel()))


def _uniform(shape: ReplayShape) -> bool:
    return shape.tokens == shape.rows and not shape.prefill_rows
