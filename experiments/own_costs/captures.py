"""What captured graphs took, as rows of the table `calibration`, and what a reader must be told of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from ...analysis.graph_memory import GraphMemory, estimate_graph_memory, judge_graph_memory
from ...instrumentation.recording.meta import Diagnostic
from ...instrumentation.recording.registry import Value
from ...runner.devices.base import CaptureFigures, GraphKey
from ...runner.devices.calibration_rows import CalibrationRow

SOURCE = "this run, before its first step"
_WHAT_FLAGS_MEAN = {
    "estimate_zero": "the estimate is 0 though graphs were captured",
    "estimate_above_free": "the estimate is above the memory that was free",
    "ratio_out_of_range": "estimate and measurement differ by more than a factor of two",
}


def graph_key(key: GraphKey) -> str:
    """`full/64`: the mode and the captured size."""
    return f"{key.mode}/{key.tokens}"


def capture_rows(
    captures: Sequence[CaptureFigures], environment: Mapping[str, Value], day: date | None = None
) -> list[CalibrationRow]:
    """Rows graph_memory and graph_capture for each key, and graph_memory_estimate, graph_free_before and
    graph_free_after with the key `all`; none where nothing was captured.

    An estimate is what two captures of each mode foretell of all of them.
    """
    if not captures:
        return []
    memory = _judge(captures)
    entries: list[tuple[str, str, int | None, str]] = [
        ("graph_memory_estimate", "all", memory.estimate_bytes, "bytes"),
        ("graph_free_before", "all", captures[0].free_before_bytes, "bytes"),
        ("graph_free_after", "all", captures[-1].free_after_bytes, "bytes"),
    ]
    for figures in captures:
        entries.append(("graph_memory", graph_key(figures.key), figures.memory_bytes, "bytes"))
        entries.append(("graph_capture", graph_key(figures.key), figures.capture_ns, "ns"))
    gpu, driver = (str(environment.get(name) or "") for name in ("gpu_name", "gpu_driver"))
    origin = (gpu, driver, (day or date.today()).isoformat(), SOURCE, None)
    return [(name, key, float(value), unit, *origin) for name, key, value, unit in entries if value is not None]


def graph_notes(captures: Sequence[CaptureFigures], uncaptured: Mapping[GraphKey, str]) -> list[Diagnostic]:
    """Why sizes have no graph, and what is wrong with the estimate of their memory."""
    notes = [
        Diagnostic("dispatch", "size", f"graph {graph_key(key)} was not captured: {reason}")
        for key, reason in uncaptured.items()
    ]
    if captures:
        memory = _judge(captures)
        figures = f"estimated {memory.estimate_bytes} bytes, measured {memory.measured_bytes}"
        notes += [
            Diagnostic("calibration", "value", f"graph memory: {_WHAT_FLAGS_MEAN[flag]} ({figures})")
            for flag in memory.flags
        ]
    return notes


def _judge(captures: Sequence[CaptureFigures]) -> GraphMemory:
    modes = list(dict.fromkeys(figures.key.mode for figures in captures))
    taken = [[figures.memory_bytes for figures in captures if figures.key.mode == mode] for mode in modes]
    estimate = estimate_graph_memory([memory[:2] for memory in taken], [len(memory) for memory in taken])
    return judge_graph_memory(
        len(captures), estimate, captures[0].free_before_bytes, captures[-1].free_after_bytes
    )
