"""From the section `workload` of a spec to requests, a scheduler and what happens on the way."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import UsageError
from ..workloads import regimes
from ..workloads.cases import STEPS, case_workload
from ..workloads.regime_base import Seeded
from ..workloads.scheduler import SchedulerConfig
from ..workloads.synthetic import Synthetic, synthetic_workload, trace_workload
from ..workloads.traces.reader import read_trace
from ..workloads.traces.replay import ReplayOptions
from ..workloads.workload import Workload
from .spec import TraceSpec, WorkloadSpec
from .typed import unknown

SHARED_SIZES = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "num_blocks", "kv_groups")
"""Sizes and groups that scheduler and runner have in common; in a spec they stand in the section `runner`."""

TRACE_POOL_TOKENS = 1 << 20
"""KV positions that a replay has room for where num_blocks is not given: 34 GB of llama-1b, what an H200 can spare."""

_BOUNDLESS = SchedulerConfig(max_model_len=1 << 40, num_blocks=1 << 40)
"""Refuses nothing: for drawing lengths before the limits are known."""


def build_workload(spec: WorkloadSpec, sizes: Mapping[str, Any], *, vocab_size: int, steps: int | None) -> Workload:
    """The workload of `spec`. `sizes` are the shared sizes that were given; the others are the source's own.

    `steps` is how many steps will be measured: a regime that can last as long as one wants is made to last that long.
    The result is shared between calls with equal arguments; it is immutable.
    Raises UsageError: unknown settings, or a request that can never run.
    """
    key = json.dumps([msgspec.to_builtins(spec), dict(sizes), vocab_size, steps], sort_keys=True)
    return _built(key)


@functools.lru_cache(maxsize=64)
def _built(key: str) -> Workload:
    tree, sizes, vocab_size, steps = json.loads(key)
    spec = msgspec.convert(tree, WorkloadSpec)
    limits = _limits(spec, sizes)
    if spec.regime is not None:
        return _regime(spec, limits, vocab_size, steps)
    if spec.trace is not None:
        return _trace(spec.trace, spec.seed, limits, vocab_size)
    if spec.case is not None:
        return _case(spec.case, spec.seed, limits, vocab_size, steps)
    assert spec.generator is not None
    return _generated(spec.generator, spec.seed, limits, vocab_size)


def _limits(spec: WorkloadSpec, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the scheduler's configuration that the spec gives, in one mapping."""
    known = {field.name for field in dataclasses.fields(SchedulerConfig)}
    for name in spec.scheduler:
        if name in SHARED_SIZES:
            raise UsageError(f"workload.scheduler.{name}: is shared with the runner; write it as runner.{name}")
        if name not in known:
            raise unknown("key", name, known - set(SHARED_SIZES), "workload.scheduler")
    return {**sizes, **spec.scheduler}


def _regime(spec: WorkloadSpec, limits: dict[str, Any], vocab_size: int, steps: int | None) -> Workload:
    assert spec.regime is not None
    settings = copy.deepcopy(spec.settings)
    for name in limits:
        if settings.get(name, limits[name]) != limits[name]:
            raise UsageError(f"workload.settings.{name}: is {settings[name]}, but the spec also says {limits[name]}")
    regime = regimes.REGIMES.get(spec.regime)
    if steps is not None and regime is not None and "steps" in regime.__struct_fields__:
        settings.setdefault("steps", steps)
    return regimes.build(spec.regime, seed=spec.seed, vocab_size=vocab_size, **{**settings, **limits})


def _trace(spec: TraceSpec, seed: int, limits: dict[str, Any], vocab_size: int) -> Workload:
    jitter_ns = round(spec.jitter_ms * 1e6)
    options = ReplayOptions(speed=spec.speed, jitter_ns=jitter_ns, repeat=spec.repeat, seed=seed)
    trace = read_trace(spec.file, format=spec.format, limit=spec.limit, options=options)
    longest = int((trace.prompt_len + trace.output_len).max())
    return trace_workload(trace, _fitting(longest, limits), name=spec.file, seed=seed, vocab_size=vocab_size)


def _case(text: str, seed: int, limits: dict[str, Any], vocab_size: int, steps: int | None) -> Workload:
    try:
        return case_workload(text, Seeded(seed, vocab_size), steps or STEPS, limits)
    except msgspec.ValidationError as error:
        raise UsageError(f"workload.scheduler: {error}") from error


def _generated(spec: Synthetic, seed: int, limits: dict[str, Any], vocab_size: int) -> Workload:
    drawn = synthetic_workload(spec, _BOUNDLESS, seed=seed, vocab_size=vocab_size)
    longest = max(request.prompt_len + request.output_len for request in drawn.requests)
    return synthetic_workload(spec, _fitting(longest, limits), seed=seed, vocab_size=vocab_size)


def _fitting(longest: int, limits: dict[str, Any]) -> SchedulerConfig:
    """Limits for requests of up to `longest` tokens: what is not given is made large enough."""
    limits = dict(limits)
    defaults = SchedulerConfig()
    limits.setdefault("max_model_len", max(defaults.max_model_len, longest))
    block_size = limits.get("block_size", defaults.block_size)
    if block_size >= 1:  # else the configuration refuses it, with the better message
        limits.setdefault("num_blocks", max(TRACE_POOL_TOKENS, longest) // block_size + 2)
    try:
        return msgspec.convert(limits, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"workload.scheduler: {error}") from error
