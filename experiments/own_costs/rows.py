"""The rows of the table `calibration` in a recording made on a GPU: what padding is judged by, and with what constants.

    name       key                      value
    replay_ns  full/512/300             T(512) with 300 real tokens, measured in the run itself
    replay_ns  full/300/300             T(300), the same rows and KV lengths
    eager_ns   full/512/300             the eager forward of those 300 tokens, launches included
    own_copy_ns  block_table/8388608    one copy of the block table among others behind other work, in the run itself
    graph_ns   llama-1b/512             the bundled calibration's curve, only for the model and the GPU it was made with
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import torch

from ...analysis.table_copies import BLOCK_TABLE
from ...instrumentation.recording.meta import Diagnostic
from ...runner.config import RunnerConfig
from ...runner.devices.calibration import calibration_of
from ...runner.devices.calibration_rows import CalibrationRow, calibration_rows
from ...runner.model_runner import ModelRunner
from ..calibrate.bench import GpuBench
from .copies import copy_entry, queued_copy_ns
from .replays import ReplayCost, measure_replays
from .shapes import ReplayTally

SOURCE = "measured in this run after its last step: replays of both sizes over equal rows and KV, in turns"
COPY_SOURCE = "measured in this run after its last step: copies of that size one behind the other"


def cost_rows(
    runner: ModelRunner, config: RunnerConfig, tally: ReplayTally, driver: str
) -> tuple[list[CalibrationRow], list[Diagnostic]]:
    """Rows for a run on the device `cuda`, and why some are missing."""
    gpu = torch.cuda.get_device_name()
    rows = list(bundled_rows(gpu, config.model))
    shapes = tally.shapes()
    if not shapes:
        return rows, []
    try:
        costs = measure_replays(runner, config, GpuBench(), shapes)
    except torch.OutOfMemoryError:
        note = "T(size) of this run: GPU memory does not hold the graphs of the actual sizes; lower runner.num_blocks"
        return rows, [Diagnostic("calibration", "value", note)]
    return [*rows, *own_rows(costs, _origin(driver, SOURCE))], []


def copy_rows(tally: ReplayTally, driver: str) -> list[CalibrationRow]:
    """What the block table's copies take once they run; no row where none came from page-locked memory, or none is
    left for one more.
    """
    size_bytes = tally.usual_copy_bytes(BLOCK_TABLE)
    if size_bytes is None:
        return []
    try:
        entry, copy_ns = copy_entry(BLOCK_TABLE, size_bytes, queued_copy_ns(GpuBench(), size_bytes))
    except RuntimeError:  # torch's word for memory that ran out, on either side
        return []
    return [(*entry, copy_ns, "ns", *_origin(driver, COPY_SOURCE), None)]


def _origin(driver: str, source: str) -> tuple[str, str, str, str]:
    return torch.cuda.get_device_name(), driver, datetime.now(timezone.utc).date().isoformat(), source


def bundled_rows(gpu: str, model: str) -> list[CalibrationRow]:
    """The bundled calibration of a GPU of this name; curves only for the very model that was calibrated."""
    known = calibration_of(gpu)
    return [] if known is None else calibration_rows(known, model)


def own_rows(costs: Sequence[ReplayCost], origin: tuple[str, str, str, str]) -> list[CalibrationRow]:
    """Measured costs as rows; `origin` is gpu, driver, date, source. An actual size that was captured has one row."""
    found = dict(entry for cost in costs for entry in _entries(cost))
    return [(name, key, float(value), "ns", *origin, kernels) for (name, key), (value, kernels) in found.items()]


def _entries(cost: ReplayCost) -> Iterator[tuple[tuple[str, str], tuple[int, str | None]]]:
    shape = cost.shape
    padded = f"{shape.mode}/{shape.size}/{shape.tokens}"
    yield ("replay_ns", f"{shape.mode}/{shape.tokens}/{shape.tokens}"), (cost.actual_ns, cost.actual_kernels)
    yield ("replay_ns", padded), (cost.padded_ns, cost.padded_kernels)
    yield ("eager_ns", padded), (cost.eager_ns, None)
