"""`capture_sizes: optimal`: the best list for a point's own workload, found before anything runs."""

from __future__ import annotations

import pandas as pd

from ...analysis.curves import curve
from ...analysis.sizes.costs import SizesCosts, SizesLimits, problem_of
from ...analysis.sizes.solve import solve_sizes
from ...errors import UsageError
from ...instrumentation.capture_sizes import Sizes, resolve_sizes
from ...instrumentation.recording.schema import CALIBRATION
from ...runner.config import RunnerConfig
from ...runner.devices.calibration import load_calibration
from ...runner.devices.calibration_rows import calibration_rows
from ...workloads.workload import Workload
from ..spec import PointSpec
from .dry import MOST_STEPS, dry_stream

TRAIN = 0.5
"""Share of the looked-at steps that the list is chosen by: the run may judge it on the others."""


def calibration_table(calibration: str, cost_model: str) -> pd.DataFrame:
    """A calibration file as a recording's table."""
    rows = calibration_rows(load_calibration(calibration), cost_model)
    return pd.DataFrame(rows, columns=[column.name for column in CALIBRATION])


def sizes_costs(calibration: pd.DataFrame) -> SizesCosts:
    """The curves of a table. Raises UsageError with the reason where T(size) or T(tokens) is missing."""
    graph, why = curve(calibration, "graph_ns")
    eager, why_no_eager = curve(calibration, "eager_span_ns")
    if graph is None or eager is None:
        raise UsageError(
            f"sizes: {why or why_no_eager}; give one with --calibration NAME_OR_FILE and --cost-model SHAPE"
        )
    return SizesCosts(graph, eager, curve(calibration, "sized_attention_ns")[0])


def costs_on(device: str | None, config: RunnerConfig, costs: SizesCosts) -> SizesCosts:
    """The costs as they are there. `sim` goes by the curves as they were measured, and its attention knows no captured
    size; nor does that of a decode with drafts.
    """
    if device == "sim":
        return costs.without_attention()
    return costs.pooled() if config.decode_query_len == 1 else costs.pooled().without_attention()


def ladder_of(config: RunnerConfig, setting: str) -> Sizes:
    """The ladder `setting` (default, vllm) for the limits of a runner."""
    return resolve_sizes(
        setting, max_num_seqs=config.max_num_seqs, max_num_batched_tokens=config.max_num_batched_tokens,
        max_capture_size=config.max_capture_size, num_speculative_tokens=config.num_drafts,
    )  # fmt: skip


def usual_limits(config: RunnerConfig) -> SizesLimits:
    """The maximum of the default ladder, whole decodes, and no more graphs than vLLM's ladder has."""
    multiple = config.decode_query_len
    maximum = ladder_of(config, "default")[-1] // multiple * multiple
    return SizesLimits(maximum=maximum, multiple=multiple, max_graphs=max(1, len(ladder_of(config, "vllm"))))


def optimal_sizes(spec: PointSpec, workload: Workload, most_steps: int | None = None) -> Sizes:
    """What `capture_sizes: optimal` means for a point: chosen by the first half of its first steps.

    `most_steps` of them are looked at, MOST_STEPS if it is None. Raises UsageError where the shape is not calibrated.
    """
    default = ladder_of(spec.runner, "default")
    if spec.runner.graph_mode == "none":
        return default  # nothing is captured
    costs = costs_on(spec.device, spec.runner, sizes_costs(calibration_table(spec.calibration, spec.cost_model)))
    limits = usual_limits(spec.runner)
    looked_at = dry_stream(spec, workload, costs, default, min(most_steps or MOST_STEPS, MOST_STEPS))
    stream = looked_at.up_to(limits.maximum)
    cut = max(1, round(len(stream.tokens) * TRAIN))
    return solve_sizes(problem_of(stream.between(0, cut), costs, limits)).sizes
