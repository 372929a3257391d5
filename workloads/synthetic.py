"""Workloads from generator settings and from traces, served by a given scheduler."""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

import msgspec

from ..errors import UsageError
from .arrivals import AllAtOnce, ArrivalConfig, concurrency_of
from .lengths import LengthConfig, Lengths
from .requests import PrefixHashes, Request
from .scheduler import SchedulerConfig, token_limit
from .seeds import generator
from .traces import TraceResult
from .workload import Workload


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each prompt begins with one of `num_prefixes` prefixes of `prefix_len` tokens, drawn evenly."""

    num_prefixes: int
    prefix_len: int

    def __post_init__(self) -> None:
        if self.num_prefixes < 1 or self.prefix_len < 1:
            raise UsageError("workload: shared_prefix needs num_prefixes >= 1 and prefix_len >= 1")


class Synthetic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Generator settings. `prompt` lengths include the shared prefix; a shorter prompt is a cut of it."""

    num_requests: int
    prompt: LengthConfig
    output: LengthConfig
    arrivals: ArrivalConfig = AllAtOnce()
    shared_prefix: SharedPrefix | None = None

    def __post_init__(self) -> None:
        if self.num_requests < 1:
            raise UsageError(f"workload: num_requests is {self.num_requests}; it must be at least 1")


def synthetic_workload(settings: Synthetic, scheduler: SchedulerConfig, *, seed: int, vocab_size: int) -> Workload:
    """Requests of `settings`: prompts, outputs, arrivals and prefixes each from a stream of their own.

    Independent draws on purpose: one draw for both lengths would make long prompts always have long answers.
    Raises UsageError for a request that can never run under `scheduler`.
    """
    num = settings.num_requests
    prompts = settings.prompt.draw(num, generator(seed, "prompt-lengths"))
    outputs = settings.output.draw(num, generator(seed, "output-lengths"))
    arrivals = settings.arrivals.offsets_ns(num, generator(seed, "arrivals"))
    prefixes = _prefixes(settings.shared_prefix, prompts, seed)
    requests = [
        Request(
            f"r{index}",
            int(prompts[index]),
            int(outputs[index]),
            vocab_size,
            int(arrivals[index]),
            seed,
            prefix=prefixes[index],
        )
        for index in range(num)
    ]
    for request in requests:
        token_limit(request, scheduler)
    return Workload(
        name="synthetic",
        requests=tuple(requests),
        scheduler=scheduler,
        max_concurrency=concurrency_of(settings.arrivals),
        parameters=msgspec.to_builtins(settings),
    )


def _prefixes(shared: SharedPrefix | None, prompts: Lengths, seed: int) -> list[PrefixHashes | None]:
    """For each prompt the drawn prefix and then ids that nobody else has, in blocks of the prefix's length."""
    if shared is None:
        return [None] * len(prompts)
    drawn = generator(seed, "prefix-choice").integers(0, shared.num_prefixes, size=len(prompts))
    own = count(shared.num_prefixes)
    hashes: list[PrefixHashes | None] = []
    for prefix, prompt_len in zip(drawn, prompts, strict=True):
        num_own = max(-(-int(prompt_len) // shared.prefix_len) - 1, 0)
        hashes.append(PrefixHashes(shared.prefix_len, (int(prefix), *islice(own, num_own))))
    return hashes


def trace_workload(
    trace: TraceResult, scheduler: SchedulerConfig, *, name: str, seed: int, vocab_size: int
) -> Workload:
    """The replay of a trace. Its notes carry source, licence, skipped rows and every change made to it.

    Raises UsageError for a request that can never run under `scheduler`.
    """
    requests = trace.requests(vocab_size=vocab_size, seed=seed)
    for request in requests:
        token_limit(request, scheduler)
    skipped = [f"{rows} rows skipped: {reason}" for reason, rows in sorted(trace.skipped.items())]
    return Workload(
        name=Path(name).name,
        requests=requests,
        scheduler=scheduler,
        parameters={"trace": Path(name).name, "format": trace.format, "requests": len(trace)},
        notes=(f"trace: {trace.source}", *skipped, *trace.warnings),
    )
