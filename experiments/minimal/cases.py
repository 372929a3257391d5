"""Small experiments to look at by eye: the article's examples, and requests of the reader's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UsageError
from ...runner.config import RunnerConfig
from ...workloads.requests import Request
from ...workloads.scheduler import Scheduler, SchedulerConfig
from ...workloads.step import CachedRequests, NewRequest, SamplingParams, StepDelta, StepResult
from ..loading import load_tree
from ..typed import convert, unknown

_NUM_BLOCKS = 64
_VOCAB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """One request of a case.

    prompt, output  tokens
    computed        tokens that are computed before the first step, as after a prefix hit
    scheduled       tokens of the one step that is written out by hand; needs `blocks`
    blocks          its block ids
    """

    id: str
    prompt: int
    output: int = 4
    computed: int = 0
    scheduled: int | None = None
    blocks: tuple[int, ...] = ()
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSpec:
    """A case as it stands in a file.

    With `scheduled` in the requests it is one step written out by hand; else the scheduler makes `steps` steps of it.
    finish  requests that a second step, of one token for each of the others, finishes
    """

    requests: tuple[RequestSpec, ...]
    block_size: int = 4
    max_num_batched_tokens: int = 16
    max_model_len: int = 64
    num_blocks: int = _NUM_BLOCKS
    steps: int = 1
    finish: tuple[str, ...] = ()
    all_fields: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A case that can run: the runner's sizes and the source of its steps. Step `focus` is the one to look at."""

    name: str
    spec: CaseSpec
    focus: int
    results: list[StepResult] = field(default_factory=list)

    def config(self) -> RunnerConfig:
        """A runner just large enough, every invariant checked."""
        spec = self.spec
        return RunnerConfig(
            max_num_seqs=len(spec.requests), max_num_batched_tokens=spec.max_num_batched_tokens,
            max_model_len=spec.max_model_len, block_size=spec.block_size, num_blocks=spec.num_blocks,
            slot_mapping="torch", check="every",
        )  # fmt: skip

    def deltas(self) -> Iterator[StepDelta]:
        """The steps; whoever runs one appends its result to `results` before asking for the next."""
        if any(request.scheduled is not None for request in self.spec.requests):
            return self._by_hand()
        return self._scheduled()

    def _by_hand(self) -> Iterator[StepDelta]:
        new = tuple(_new_request(self.spec, request) for request in self.spec.requests)
        scheduled = {request.id: request.scheduled or 0 for request in self.spec.requests}
        yield StepDelta(0, new, num_scheduled_tokens=scheduled)
        if self.spec.finish:
            yield self._second_step(scheduled)

    def _second_step(self, scheduled: dict[str, int]) -> StepDelta:
        going = [request for request in self.spec.requests if request.id not in self.spec.finish]
        sampled = self.results[-1].sampled
        cached = CachedRequests(
            tuple(request.id for request in going),
            (None,) * len(going),
            tuple(request.computed + scheduled[request.id] for request in going),
            tuple(len(sampled.get(request.id, ())) for request in going),
        )
        once = dict.fromkeys((request.id for request in going), 1)
        return StepDelta(1, (), cached, once, finished_req_ids=frozenset(self.spec.finish))

    def _scheduled(self) -> Iterator[StepDelta]:
        spec = self.spec
        scheduler = Scheduler(SchedulerConfig(
            max_num_seqs=len(spec.requests), max_num_batched_tokens=spec.max_num_batched_tokens,
            max_model_len=spec.max_model_len, block_size=spec.block_size, num_blocks=spec.num_blocks,
        ))  # fmt: skip
        for request in spec.requests:
            sampling = SamplingParams(temperature=request.temperature)
            scheduler.add_request(Request(request.id, request.prompt, request.output, _VOCAB, sampling=sampling))
        for _ in range(spec.steps):
            if not scheduler.has_unfinished() and not scheduler.has_pending_finished():
                return
            yield scheduler.schedule()
            scheduler.update(self.results[-1])


def _new_request(case: CaseSpec, request: RequestSpec) -> NewRequest:
    where = f"requests[{request.id}]"
    if request.scheduled is None or not request.blocks:
        raise UsageError(f"{where}: a step by hand needs `scheduled` and `blocks` in every request")
    end = request.computed + request.scheduled
    if end > request.prompt:
        told = f"computed {request.computed} + scheduled {request.scheduled} exceed its prompt"
        raise UsageError(f"{where}: {told}; a step by hand lies within the prompt: write prompt: {end} or more")
    if end > len(request.blocks) * case.block_size:
        raise UsageError(f"{where}: its blocks hold {len(request.blocks) * case.block_size} tokens, it needs {end}")
    for block in request.blocks:
        if not 0 < block < case.num_blocks:
            raise UsageError(f"{where}: block {block} is not one of 1 .. {case.num_blocks - 1}; 0 is the null block")
    prompt = (np.arange(request.prompt, dtype=np.int32) * 7 + ord(request.id[0])) % _VOCAB
    sampling = SamplingParams(temperature=request.temperature)
    return NewRequest(request.id, prompt.astype(np.int32), (request.blocks,), request.computed, sampling)


def _by_hand(rows: dict[str, tuple[int, int, int, tuple[int, ...]]], **fields: Any) -> CaseSpec:
    requests = tuple(
        RequestSpec(id=name, prompt=prompt, computed=computed, scheduled=scheduled, blocks=blocks)
        for name, (prompt, computed, scheduled, blocks) in rows.items()
    )
    return CaseSpec(requests=requests, **fields)


EXAMPLES: dict[str, tuple[CaseSpec, int]] = {
    # name: (case, the step to look at); rows are prompt, computed, scheduled, blocks
    "2-5-3": (
        _by_hand({"A": (2, 0, 2, (1,)), "B": (5, 0, 5, (2, 3)), "C": (3, 0, 3, (4,))}, all_fields=True), 0,
    ),
    "abc": (
        _by_hand({"A": (6, 5, 1, (1, 2)), "B": (5, 0, 3, (5,)), "C": (10, 8, 2, (3, 7, 4))}), 0,
    ),
    "minimal": (
        CaseSpec(
            requests=(RequestSpec(id="A", prompt=8), RequestSpec(id="B", prompt=10)), max_num_batched_tokens=4, steps=3,
        ), 2,
    ),
    "condense": (
        _by_hand({name: (3, 0, 3, (1 + row,)) for row, name in enumerate("ABCD")}, finish=("B",)), 1,
    ),
}  # fmt: skip
"""The article's: flat boundaries; the three-request example; a decode beside a chunk; row 1 leaves, row 3 moves in."""


def load_case(file: Path | None, example: str | None) -> Case:
    """The case in `file`, or a built-in one (`minimal` if neither is given)."""
    if file is not None and example is not None:
        raise UsageError("give a file or --example, not both")
    if file is None:
        name = example or "minimal"
        if name not in EXAMPLES:
            raise unknown("example", name, EXAMPLES)
        spec, focus = EXAMPLES[name]
        return Case(name, spec, focus)
    spec = convert(CaseSpec, load_tree(file), "")
    _check(spec)
    return Case(file.name, spec, 1 if spec.finish else spec.steps - 1)


def _check(spec: CaseSpec) -> None:
    if not spec.requests:
        raise UsageError("requests: the list is empty; give at least one")
    names = [request.id for request in spec.requests]
    for name in names:
        if names.count(name) > 1 or not name:
            raise UsageError(f"requests: the id {name!r} is empty or given twice; ids must differ")
    for request in spec.requests:
        _check_request(spec, request)
    if spec.steps < 1:
        raise UsageError(f"steps: {spec.steps} is too small; at least 1")
    _check_kind(spec)
    strangers = set(spec.finish) - set(names)
    if strangers:
        raise UsageError(f"finish: no request is named {min(strangers)!r}")


def _check_kind(spec: CaseSpec) -> None:
    """A step by hand or steps of the scheduler: refuse what the other kind would have used, it changes nothing."""
    if any(request.scheduled is not None for request in spec.requests):
        if spec.steps > 1:
            raise UsageError(f"steps: {spec.steps}, but the requests give `scheduled`: a step by hand; leave one out")
        return
    for request in spec.requests:
        for name in ("computed", "blocks"):
            if getattr(request, name):
                raise UsageError(f"requests[{request.id}].{name}: belongs to a step by hand; give `scheduled` as well")
    if spec.finish:
        raise UsageError("finish: belongs to a step by hand; give the requests `scheduled` and `blocks` as well")


def _check_request(spec: CaseSpec, request: RequestSpec) -> None:
    where = f"requests[{request.id}]"
    least = {"prompt": 1, "output": 1, "computed": 0, "scheduled": 0, "temperature": 0}
    for name, low in least.items():
        value = getattr(request, name)
        if value is not None and value < low:
            raise UsageError(f"{where}.{name}: {value} is too small; at least {low}")
    if request.prompt > spec.max_model_len:
        raise UsageError(f"{where}.prompt: {request.prompt} tokens; max_model_len is {spec.max_model_len}, raise it")
