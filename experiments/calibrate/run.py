"""`perf doctor --calibrate`: measure this GPU, keep the raw figures, write the calibration file."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import torch

from ...errors import MeasurementError, UsageError
from ...instrumentation.telemetry import TelemetrySampler
from ...runner.devices.calibration import Calibration
from ...runner.models.config import NAMED, ModelConfig
from ...runner.models.layer_ops import make_layer_ops
from ...runner.models.llama import LlamaModel
from ..files import make_writable, write_atomically
from .attention import DECODE, PREFILL, Attends, attention_samples
from .bench import Bench, GpuBench, Said
from .calls import host_costs, latencies
from .copies import copy_figures
from .derive import decode_line, derive, prefill_line
from .heads import ROWS, ceilings, head_samples
from .raw import Origin, RawFigures, Shape
from .sized import SIZED, sized_samples
from .stack import (
    EAGER_SIZES,
    GRAPHS_AT_ONCE,
    ROUNDS,
    STACK_SIZES,
    Stack,
    copied_weights,
    eager_samples,
    stack_samples,
    without_attention,
)

MODEL = "llama-1b"
COMMAND = "perf doctor --calibrate"
METHOD = (
    f"stack: median of {ROUNDS} rounds' medians, rounds of {GRAPHS_AT_ONCE} neighbouring sizes take turns; eager and"
    " host costs, copies (by CUPTI, after all host times): least of the rounds' medians; the rest medians of event"
    " pairs around queued calls"
)
STACK = "the runner's LlamaModel with its Triton kernels in a CUDA graph, cache writes included, attention left out"
MEMORY_NEEDED = 32 << 30
MAX_POSITIONS = 8192
DEFAULT_FILE = Path("calibration.json")


@dataclass(frozen=True, slots=True)
class Written:
    """What a calibration left behind, and in words how well its lines fit."""

    file: Path
    raw_file: Path
    calibration: Calibration
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: a decoder without attention, one layer of it, and the attention that belongs to it."""

    config: ModelConfig
    stack: Stack
    piece: Stack
    backend: Attends


@dataclass(frozen=True, slots=True)
class Grid:
    """At which sizes the decoder is measured."""

    stack: tuple[int, ...] = STACK_SIZES
    eager: tuple[int, ...] = EAGER_SIZES
    heads: tuple[int, ...] = ROWS
    decode: tuple[tuple[int, int], ...] = DECODE
    prefill: tuple[int, ...] = PREFILL
    sized: tuple[int, ...] = SIZED


def calibrate(out: Path | None, say: Said) -> Written:
    """Measure the current GPU into `out` and `<out>_raw.json`; `say` hears a line as each part ends.

    Raises MeasurementError where nothing can be measured, UsageError where the files cannot be written.
    """
    require_gpu()
    file = out or DEFAULT_FILE
    raw_file = file.with_name(f"{file.stem}_raw.json")
    make_writable(file.absolute().parent)
    began = time.perf_counter()
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        bench = GpuBench()
        subject = make_subject(bench.device, NAMED[MODEL])
        say(f"{MODEL}: weights and caches made in {time.perf_counter() - began:.1f} s")
        parts = measure_parts(bench, subject, Grid(), lambda known: _write(raw_file, known), say)
    origin = origin_of(round(time.perf_counter() - began, 1))
    raw = msgspec.convert(msgspec.to_builtins({**parts, "origin": origin}), RawFigures)
    _write(raw_file, raw)
    return write_calibration(raw, file, raw_file)


def write_calibration(raw: RawFigures, file: Path, raw_file: Path) -> Written:
    """Derive the calibration file from raw figures and write it."""
    calibration = derive(raw, source_of(raw_file))
    _write(file, calibration)
    lines = (f"decode attention line: {decode_line(raw)}", f"prefill attention line: {prefill_line(raw)}")
    return Written(file, raw_file, calibration, lines)


def source_of(raw_file: Path) -> str:
    """What a calibration says of its origin."""
    return f"{COMMAND}; raw figures: {raw_file.name}"


def require_gpu() -> None:
    """Raises MeasurementError, in one line, where this machine has nothing to calibrate."""
    if not torch.cuda.is_available():
        build = "" if torch.version.cuda else f" (torch {torch.__version__} is built without CUDA)"
        raise MeasurementError(f"doctor --calibrate: no usable NVIDIA GPU here{build}; run it where the GPU is")
    free, _ = torch.cuda.mem_get_info()
    if free < MEMORY_NEEDED:
        raise MeasurementError(
            f"doctor --calibrate: {free >> 30} GiB of GPU memory are free, {MODEL} and its caches take"
            f" {MEMORY_NEEDED >> 30}; end other programs on this GPU"
        )


def make_subject(device: torch.device, config: ModelConfig) -> Subject:
    """The runner's decoder with its Triton operators, and its attention."""
    from ...runner.attention.triton_backend import TritonAttention

    backend = TritonAttention()
    weights = copied_weights(config, device)
    first = dataclasses.replace(config, num_hidden_layers=1), dataclasses.replace(weights, layers=weights.layers[:1])
    whole, piece = (
        Stack(device, LlamaModel(shape, held, make_layer_ops(backend.name, shape, device, MAX_POSITIONS)),
              without_attention(), max(STACK_SIZES))
        for shape, held in ((config, weights), first)
    )  # fmt: skip
    return Subject(config, whole, piece, backend)


def measure_parts(
    bench: Bench, subject: Subject, grid: Grid, keep: Callable[[dict[str, Any]], None], say: Said
) -> dict[str, Any]:
    """Every part of RawFigures but its origin; `keep` is handed what is known after each part, so that a failure in a
    late one does not cost the early ones.
    """
    whole = bench.graph(lambda: subject.stack.forward(1))
    piece = bench.graph(lambda: subject.piece.forward(1))
    jobs: dict[str, Callable[[], Any]] = {
        "host_cost_ns": lambda: host_costs(bench, whole, piece),
        "ceilings": lambda: ceilings(bench),
        "heads": lambda: head_samples(bench, subject.stack.model, grid.heads),
        "eager": lambda: eager_samples(bench, subject.stack, grid.eager),
        "attention": lambda: attention_samples(bench, subject.config, subject.backend, grid.decode, grid.prefill),
        "stack": lambda: stack_samples(bench, subject.stack, grid.stack, say),
        "sized": lambda: sized_samples(bench, subject.stack, subject.backend, grid.sized),
        # these turn the profiler on, for which every later call would pay
        "copies": lambda: copy_figures(bench),
        "latency_ns": lambda: latencies(bench, whole),
    }
    kernels = None if whole.kernels is None else len(whole.kernels)
    parts: dict[str, Any] = {"shape": shape_of(subject.config), "kernels": kernels}
    for name, job in jobs.items():
        began = time.perf_counter()
        parts[name] = job()
        keep(parts)
        say(f"{name}: {time.perf_counter() - began:.1f} s")
    return parts


def shape_of(config: ModelConfig) -> Shape:
    """The decoder in the raw file's words."""
    return Shape(
        name=config.name, layers=config.num_hidden_layers, hidden=config.hidden_size,
        heads=config.num_attention_heads, kv_heads=config.num_key_value_heads, head_dim=config.head_dim,
        intermediate=config.intermediate_size, vocab=config.vocab_size, dtype=config.dtype, stack=STACK,
    )  # fmt: skip


def origin_of(wall_s: float) -> Origin:
    """This machine, now."""
    sampler = TelemetrySampler()
    known = sampler.environment()
    sampler.close()
    return Origin(
        gpu=torch.cuda.get_device_name(), driver=str(known.get("gpu_driver") or "unknown"),
        torch=str(torch.__version__), triton=metadata.version("triton"),
        date=datetime.now(timezone.utc).date().isoformat(), command=COMMAND, method=METHOD, wall_s=wall_s,
    )  # fmt: skip


def _write(file: Path, content: object) -> None:
    try:
        write_atomically(file, json_text(content))
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror}); choose another with --out FILE") from error


def json_text(content: object) -> str:
    """Indented JSON whose innermost lists stand on one line each."""
    text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", _on_one_line, text) + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{' '.join(found[1].split())}]"
