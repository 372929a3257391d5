"""From what a spec says to what is measured: every size and name that was left open is decided, and all of it checked.

A resolved point holds no `auto` and no derived value, so equal resolved points are equal experiments.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, get_args

from ..errors import UsageError
from ..runner.config import RunnerConfig
from ..workloads.acceptance import NGRAM
from ..workloads.case_grammar import parse_case
from ..workloads.embeds import with_embeds
from ..workloads.scheduler import SchedulerConfig
from ..workloads.workload import Workload
from .axes import full_path
from .overhead import NUM_SILENT, alternates, counted_steps
from .sources import SHARED_SIZES, build_workload
from .spec import DeviceName, MeasureSpec, PointSpec, parse_point
from .visits import arm_steps

MICRO_ABOVE_PAIRS = 100_000_000
"""(query, key) pairs above which, where no model is named, a smaller one makes the tokens: `tiny` takes 34 ns a pair,
that is 3 s, `micro` 6 ns. A modelled device goes by costs, not by this arithmetic: there `micro-256` makes them, whose
attention is linear in the length of a prompt.
"""


def default_device() -> DeviceName:
    """What `auto` stands for here: cuda where a GPU and our device for it are, else sim."""
    import torch

    if not torch.cuda.is_available():
        return "sim"
    try:
        _check_device("cuda", "", "")
    except UsageError:
        return "sim"
    return "cuda"


def check_device(name: str) -> None:
    """Raises UsageError for a device that nobody knows, or that is not here."""
    known = get_args(DeviceName)
    if name not in known:
        raise UsageError(f"--device: {name!r} is unknown; one of {', '.join(known)}")
    if name == "cuda":
        _check_device("cuda", "", "")


def resolve(tree: Mapping[str, Any], *, elsewhere: bool = False) -> PointSpec:
    """The point that `tree` (its sections) describes. Raises UsageError that names the field.

    `elsewhere`: it runs on another machine, so that its device need not be here.
    """
    spec = parse_point(tree)
    given = tree.get("runner") or {}
    sizes = {name: _to_schedule(spec.runner, name) for name in SHARED_SIZES if name in given} | _ahead(spec.runner)
    if "speculative" in given:
        sizes["num_speculative_tokens"] = spec.runner.num_drafts
    device = _device(spec, elsewhere=elsewhere)
    if "model" not in given and device == "cuda":
        # The shape whose cost `sim` models is the shape that a GPU runs, so that one spec means one experiment on both.
        spec = dataclasses.replace(spec, runner=dataclasses.replace(spec.runner, model=spec.cost_model))
    steps = measured_steps(spec.measure, device)
    workload = build_workload(spec.workload, sizes, vocab_size=_vocab_size(spec.runner), steps=steps)
    if spec.runner.dcp > 1 and "block_size" not in given:  # what would be the block of one rank is that of each
        sizes["block_size"] = workload.scheduler.block_size * spec.runner.dcp
        workload = build_workload(spec.workload, sizes, vocab_size=_vocab_size(spec.runner), steps=steps)
    runner = _with_sizes(spec.runner, workload.scheduler)
    if "model" not in given and device != "cuda":
        runner = dataclasses.replace(runner, model=_small_model(runner, workload, device))
    if "kernel_block_size" not in given:  # a regime that is about kernel blocks says how large they are
        size = workload.parameters.get("kernel_block_size")
        runner = dataclasses.replace(runner, kernel_block_size=size if isinstance(size, int) else None)
    runner = dataclasses.replace(runner, **_drafts(given, workload))
    _check_embeds(spec.workload.embeds_share, runner)
    if runner.capture_sizes == "optimal":
        runner = dataclasses.replace(runner, capture_sizes=_optimal(spec, runner, workload, steps))
    _check_skip(spec, workload)
    _check_ahead(spec, workload)
    _check_halves(spec)
    _check_drafts(runner, workload)
    _validate(runner)
    axis = None if spec.measure.interleave is None else full_path(spec.measure.interleave)
    measure = dataclasses.replace(spec.measure, warmup_steps=_warmup_steps(spec.measure, workload), interleave=axis)
    return dataclasses.replace(spec, device=device, runner=runner, measure=measure)


def _to_schedule(runner: RunnerConfig, name: str) -> Any:
    """A shared size as the scheduler counts it: its blocks are those of all ranks together."""
    return getattr(runner, "scheduler_block_size" if name == "block_size" and runner.dcp > 1 else name)


def _with_sizes(runner: RunnerConfig, scheduler: SchedulerConfig) -> RunnerConfig:
    """The runner with the scheduler's sizes; a block of the scheduler's lies on all ranks."""
    sizes = {name: getattr(scheduler, name) for name in SHARED_SIZES}
    if runner.dcp > 1:
        sizes["block_size"] //= runner.dcp
    return dataclasses.replace(runner, **sizes)


def _device(spec: PointSpec, *, elsewhere: bool) -> DeviceName:
    """The device that the point names, or what `auto` stands for; checked, if it is to be here.

    A claim's is not: where it is absent, the arms fail with that as their reason, and the other claims go on.
    """
    if elsewhere and spec.device == "auto":
        raise UsageError(
            "device: auto is decided by the machine at hand, and the points run on others; name it, as in --device cuda"
        )
    device = default_device() if spec.device == "auto" else spec.device
    if device == "sim" or (not elsewhere and spec.claim is None):
        _check_device(device, spec.calibration, spec.cost_model)
    return device


def workload_of(spec: PointSpec) -> Workload:
    """The workload of a resolved point."""
    sizes = {name: _to_schedule(spec.runner, name) for name in SHARED_SIZES} | _ahead(spec.runner)
    sizes["num_speculative_tokens"] = spec.runner.num_drafts
    steps = measured_steps(spec.measure, spec.device)
    workload = build_workload(spec.workload, sizes, vocab_size=_vocab_size(spec.runner), steps=steps)
    share = spec.workload.embeds_share
    if not share:
        return workload
    requests = with_embeds(workload.requests, share, _hidden_size(spec.runner), spec.workload.seed)
    return dataclasses.replace(workload, requests=requests)


def attention_pairs(workload: Workload) -> int:
    """(query, key) pairs that the workload computes if nothing is found in the prefix cache."""
    return sum((request.prompt_len + request.output_len) ** 2 // 2 for request in workload.requests)


def _small_model(runner: RunnerConfig, workload: Workload, device: DeviceName) -> str:
    """Who makes the tokens where no model is named: a layer for each KV cache group, and no more work than need be."""
    if len(workload.scheduler.groups) > 2:
        return "tiny-6"
    one_group = len(workload.scheduler.groups) == 1
    if not one_group or attention_pairs(workload) <= MICRO_ABOVE_PAIRS:
        return runner.model
    return "micro-256" if device == "sim" and runner.dcp == 1 else "micro"


def measured_steps(measure: MeasureSpec, device: DeviceName) -> int | None:
    """How many steps are run behind the warm-up on `device`, those included in which the probe is silent; None: until
    every request is answered.
    """
    if measure.interleave is not None:
        return arm_steps(measure)
    asked = counted_steps(measure, device)
    return asked + NUM_SILENT if asked is not None and alternates(measure, device) else asked


def _warmup_steps(measure: MeasureSpec, workload: Workload) -> int:
    return measure.warmup_steps if measure.warmup_steps is not None else workload.settle_steps or 0


def _vocab_size(runner: RunnerConfig) -> int:
    from ..runner.models.config import resolve_config

    return resolve_config(runner.model).vocab_size


def _hidden_size(runner: RunnerConfig) -> int:
    from ..runner.models.config import resolve_config

    return resolve_config(runner.model).hidden_size


def _optimal(spec: PointSpec, runner: RunnerConfig, workload: Workload, steps: int | None) -> tuple[int, ...]:
    """The list for the steps that will run; see `sizing.optimal`."""
    from .sizing.optimal import optimal_sizes

    most = None if steps is None else steps + _warmup_steps(spec.measure, workload)
    try:
        return optimal_sizes(dataclasses.replace(spec, runner=runner), workload, most)
    except UsageError as error:
        raise UsageError(f"runner.capture_sizes: optimal: {error}") from error


def _check_halves(spec: PointSpec) -> None:
    """Halves that take turns because each has a step in flight are one batch once nothing is in flight."""
    if spec.measure.interleave is not None and spec.workload.regime == "alternating":
        raise UsageError(
            "workload.regime: alternating keeps two halves apart by what is in flight, and blocks of measure.interleave"
            " end with nothing in flight: from then on all rows are in each step; for steps without a row in common use"
            " regime churn with output_lens [1]"
        )


def _check_skip(spec: PointSpec, workload: Workload) -> None:
    """The arm `skip` is a counterfactual only where the table cannot change while it is measured."""
    if spec.runner.commit_order != "skip":
        return
    regime, case = spec.workload.regime, spec.workload.case
    if regime != "steady" and not (case and all(rows.kind == "decode" for rows in parse_case(case).rows)):
        source = f"regime {regime}" if regime else f"case {case}" if case else "a trace or generator"
        raise UsageError(
            f"runner.commit_order: skip needs a block table that does not change, and {source} changes its rows;"
            " use it with workload.regime steady, or with a case of decodes alone"
        )
    if not workload.scheduler.reserve_output:
        raise UsageError(
            "runner.commit_order: skip needs a block table that does not change, and this scheduler adds blocks as"
            " answers grow; set workload.scheduler.reserve_output: true"
        )


def _ahead(runner: RunnerConfig) -> dict[str, bool]:
    """What an asynchronous hand-off asks of the scheduler, unless the spec says otherwise."""
    return {} if runner.token_handoff == "sync" else {"async_scheduling": True}


def _drafts(given: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """A regime that is about drafts says how many there are and where they come from, unless the spec does."""
    from_regime: dict[str, Any] = {}
    if "speculative" not in given and workload.scheduler.num_speculative_tokens:
        from_regime["speculative"] = workload.scheduler.num_speculative_tokens
    if "acceptance" not in given and "acceptance" in workload.parameters:
        from_regime["acceptance"] = workload.parameters["acceptance"]
    return from_regime


def _check_ahead(spec: PointSpec, workload: Workload) -> None:
    """Only a runner that keeps tokens on the device can go on with one that is in flight."""
    if workload.scheduler.async_scheduling and spec.runner.token_handoff == "sync":
        raise UsageError(
            f"runner.token_handoff: sync cannot run {workload.name}, whose requests are scheduled ahead of their tokens"
            "; use async_auto (or workload.scheduler.async_scheduling: false)"
        )


def _check_drafts(runner: RunnerConfig, workload: Workload) -> None:
    """The scheduler makes room for as many drafts as the runner brings."""
    expected = workload.scheduler.num_speculative_tokens
    if expected != runner.num_drafts:
        raise UsageError(
            f"workload.scheduler.num_speculative_tokens: is {expected}, but runner.speculative is {runner.speculative};"
            " write it as runner.speculative alone"
        )
    if expected and runner.token_handoff != "sync" and not workload.scheduler.async_scheduling:
        raise UsageError(
            f"runner.speculative: {runner.speculative} with token_handoff {runner.token_handoff}, and"
            f" {workload.name} is not scheduled ahead of its tokens: results of steps in flight name no"
            " drafts, so none would ever be verified; use token_handoff sync, or speculative off"
        )


def _check_embeds(share: float, runner: RunnerConfig) -> None:
    """Embeddings need a runner that takes them, and are not what known answers and predicted graphs go by."""
    if not share:
        return
    if runner.prompt_embeds == "off":
        raise UsageError(
            f"workload.embeds_share: is {share}, and runner.prompt_embeds is off; use sparse or dense_table"
        )
    if runner.num_drafts and runner.acceptance != NGRAM:
        raise UsageError(
            f"workload.embeds_share: is {share}, and runner.acceptance {runner.acceptance} takes drafts from answers"
            " that are known before, by token ids alone; use ngram"
        )
    if runner.capture_sizes == "optimal":
        raise UsageError(
            f"workload.embeds_share: is {share}, and runner.capture_sizes optimal takes every step for one that may run"
            " in a graph, those with embeddings too; name the sizes"
        )


def _validate(runner: RunnerConfig) -> None:
    from ..runner.validity import validate

    try:
        validate(runner)
    except UsageError as error:
        raise UsageError(f"runner.{error}") from error


@functools.cache
def _check_device(device: DeviceName, calibration: str, cost_model: str) -> None:
    """One that is not there, or an uncalibrated shape, is refused before anything runs.

    A GPU is looked for, not taken: it belongs to the worker, and may be one that a single process can have.
    """
    if device == "cuda":
        from ..runner.devices.cuda_factory import check_cuda

        check_cuda()
        return
    from ..instrumentation.probe.ledger import Ledger
    from ..runner.devices import make_device

    if device == "sim":
        make_device(device, ledger=Ledger(), calibration=calibration, cost_model=cost_model).close()
    else:
        make_device(device, ledger=Ledger()).close()
