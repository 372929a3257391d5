"""From the section `workload` of a spec to requests, a scheduler and what happens on the way."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..errors import UsageError
from ..workloads import regimes
from ..workloads.arrivals import concurrency_of
from ..workloads.requests import Request
from ..workloads.scheduler import SchedulerConfig
from ..workloads.scheduler.limits import token_limit
from ..workloads.seeds import generator
from ..workloads.traces.reader import read_trace
from ..workloads.traces.replay import ReplayOptions
from ..workloads.workload import Workload
from .spec import GeneratorSpec, TraceSpec, WorkloadSpec
from .typed import unknown

SHARED_SIZES = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "num_blocks")
"""Sizes that scheduler and runner have in common; in a spec they stand in the section `runner`."""

TRACE_POOL_TOKENS = 1 << 20
"""KV positions that a replay has room for where num_blocks is not given: 34 GB of llama-1b, what an H200 can spare."""


def build_workload(spec: WorkloadSpec, sizes: Mapping[str, int], *, vocab_size: int, steps: int | None) -> Workload:
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
    assert spec.generator is not None
    return _generated(spec.generator, spec.seed, limits, vocab_size)


def _limits(spec: WorkloadSpec, sizes: Mapping[str, int]) -> dict[str, Any]:
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
    options = ReplayOptions(speed=spec.speed, jitter_ns=round(spec.jitter_ms * 1e6), seed=seed)
    result = read_trace(spec.file, format=spec.format, limit=spec.limit, options=options)
    skipped = [f"rows left out of the trace: {count} {reason}" for reason, count in result.skipped.items()]
    requests = result.requests(vocab_size=vocab_size, seed=seed)
    return Workload(
        name=f"trace {result.format}",
        requests=requests,
        scheduler=_fitting(requests, limits),
        parameters=msgspec.to_builtins(spec),
        notes=(result.source, *skipped, *result.warnings),
    )


def _generated(spec: GeneratorSpec, seed: int, limits: dict[str, Any], vocab_size: int) -> Workload:
    count = spec.num_requests
    if count < 1:
        raise UsageError(f"workload.generator.num_requests: is {count}; it must be at least 1")
    prompts = spec.prompt.draw(count, generator(seed, "generator/prompt-lengths"))
    outputs = spec.output.draw(count, generator(seed, "generator/output-lengths"))
    arrivals = spec.arrivals.offsets_ns(count, generator(seed, "generator/arrivals"))
    requests = tuple(
        Request(f"r{index}", int(prompts[index]), int(outputs[index]), vocab_size, int(arrivals[index]), seed)
        for index in range(count)
    )
    return Workload(
        name="generator",
        requests=requests,
        scheduler=_fitting(requests, limits),
        max_concurrency=concurrency_of(spec.arrivals),
        parameters=msgspec.to_builtins(spec),
    )


def _fitting(requests: Sequence[Request], limits: dict[str, Any]) -> SchedulerConfig:
    """Limits for `requests`: what is not given is made large enough for the longest of them."""
    limits = dict(limits)
    longest = max(request.prompt_len + request.output_len for request in requests)
    limits.setdefault("max_model_len", max(SchedulerConfig().max_model_len, longest))
    block_size = limits.get("block_size", SchedulerConfig().block_size)
    if block_size >= 1:  # else the configuration refuses it, with the better message
        limits.setdefault("num_blocks", max(TRACE_POOL_TOKENS, longest + block_size) // block_size + 1)
    try:
        config = msgspec.convert(limits, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"workload.scheduler: {error}") from error
    for request in requests:
        token_limit(request, config)
    return config
