"""What an experiment is, typed. The defaults of the sections are written here (and the runner's in `runner.config`).

A spec file holds the sections of one point, and beside them the axes that make many points of it:

    workload: {regime: steady, settings: {...}, seed: 0}     or {trace: {...}}  or {generator: {...}}
    runner:   {commit_order: first, graph_mode: full, ...}   fields of runner.config.RunnerConfig
    device: auto
    cost_model: llama-1b                                     of the file named by `calibration`
    measure:  {warmup_steps: 4, steps: 24, repeats: 1}
    grid:     {runner.commit_order: [first, last]}           and zip, points, exclude (see `axes`)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError
from ..runner.config import RunnerConfig
from ..runner.devices import DEFAULT_CALIBRATION, DEFAULT_COST_MODEL
from ..workloads.case_grammar import parse_case
from ..workloads.synthetic import Synthetic
from .loading import Tree
from .typed import convert

DeviceName = Literal["auto", "cpu", "sim", "cuda"]
Keep = Literal["recording", "blocks"]
AXES = ("grid", "zip", "points", "exclude")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpec:
    """Replay of a public serving trace.

    speed      arrivals come this many times faster than in the file
    limit      requests taken from the head of the file; None takes all
    jitter_ms  uniform jitter for traces whose times are ticks; 0 leaves them
    repeat     begin again from the head when `limit` asks for more requests than the file holds
    """

    file: str
    format: str | None = None
    limit: int | None = None
    speed: float = 1.0
    jitter_ms: float = 0.0
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """Exactly one source of requests: a named regime, a trace, a generator, or a batch (`workloads.case_grammar`).

    `settings` are the regime's own parameters by name; `scheduler` overrides fields of the scheduler's configuration.
    `embeds_share` of the requests bring embeddings for half of their prompt.
    """

    regime: str | None = None
    trace: TraceSpec | None = None
    generator: Synthetic | None = None
    case: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    embeds_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSpec:
    """How much is measured.

    warmup_steps    steps before measuring begins; their rows carry `warmup`. None: as the regime needs to settle
    steps           measured steps; None goes on until every request is answered
    steps_modelled  the same on a device without measured device times; None means as `steps`
    repeats         launches of each point
    interleave      axis (`commit_order`) whose points are measured side by side in one process a launch, in turns
    blocks          turns that each of them gets then;  block_steps  measured steps a turn (in place of `steps`)
    settle_steps    steps before them that are not counted
    resident        the launches of all such points live side by side, one process for each number of a launch; they
                    build their arms at the same time and measure one after another
    device_events   on `cuda`, events around device operations. They tell device times, and lengthen what is queued
                    behind a copy by 5 to 10 us: without them periods are the program's own, and device times null
    keep            "blocks" keeps the turns' periods and series and no recording: for sweeps of hundreds of launches
    """

    warmup_steps: int | None = None
    steps: int | None = None
    steps_modelled: int | None = None
    repeats: int = 1
    interleave: str | None = None
    blocks: int = 8
    block_steps: int = 50
    settle_steps: int = 3
    resident: bool = False
    device_events: bool = True
    keep: Keep = "recording"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSpec:
    """One point: everything that decides what is measured. `claim` names the claim that it is an arm of (`E1`)."""

    workload: WorkloadSpec = field(default_factory=WorkloadSpec)
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    device: DeviceName = "auto"
    calibration: str = DEFAULT_CALIBRATION
    cost_model: str = DEFAULT_COST_MODEL
    measure: MeasureSpec = field(default_factory=MeasureSpec)
    claim: str | None = None


SOURCES = ("regime", "trace", "generator", "case")
SECTIONS = tuple(section.name for section in dataclasses.fields(PointSpec))


def _positive(value: float | None, name: str, least: int = 1) -> None:
    if value is not None and value < least:
        raise UsageError(f"{name}: {value} is too small; at least {least}")


def _check_case(case: str, measure: MeasureSpec) -> None:
    """What is written wrong is said before what is missing."""
    parse_case(case)
    if measure.steps is None and measure.interleave is None:
        raise UsageError("measure.steps: a case has no end of its own; say how many steps are measured")


def _check(spec: PointSpec) -> None:
    sources = [name for name in SOURCES if getattr(spec.workload, name) is not None]
    if len(sources) != 1:
        given = " and ".join(sources) or "none"
        raise UsageError(f"workload: give exactly one of regime, trace, generator and case (given: {given})")
    if spec.workload.settings and spec.workload.regime is None:
        raise UsageError("workload.settings: are a regime's; a trace or generator has its own fields")
    if not 0 <= spec.workload.embeds_share <= 1:
        raise UsageError(f"workload.embeds_share: {spec.workload.embeds_share} is no share; use 0 to 1")
    _positive(spec.measure.warmup_steps, "measure.warmup_steps", least=0)
    _positive(spec.measure.steps, "measure.steps")
    _positive(spec.measure.steps_modelled, "measure.steps_modelled")
    for name in ("repeats", "blocks", "block_steps"):
        _positive(getattr(spec.measure, name), f"measure.{name}")
    _positive(spec.measure.settle_steps, "measure.settle_steps", least=0)
    if spec.workload.case is not None:
        _check_case(spec.workload.case, spec.measure)
    if spec.workload.trace is not None:
        _positive(spec.workload.trace.limit, "workload.trace.limit")
        if spec.workload.trace.speed <= 0:
            raise UsageError(f"workload.trace.speed: {spec.workload.trace.speed} must be above 0")


def parse_point(tree: Mapping[str, Any]) -> PointSpec:
    """The sections of one point as a PointSpec. Raises UsageError that names the field."""
    spec = convert(PointSpec, tree, "")
    _check(spec)
    return spec


def resolve_paths(tree: Tree, base: Path) -> Tree:
    """`tree` with the trace's relative path taken relative to `base`, the folder of the spec file.

    So is a model's config.json that lies there; another path of a model stays as it is.
    """
    workload = tree.get("workload")
    trace = workload.get("trace") if isinstance(workload, dict) else None
    if isinstance(trace, dict) and isinstance(trace.get("file"), str):
        trace["file"] = str(base / trace["file"])
    runner, choices = tree.get("runner"), tree.get("zip")
    if isinstance(runner, dict) and "model" in runner:
        runner["model"] = _beside(runner["model"], base)
    if isinstance(choices, dict) and isinstance(choices.get("runner.model"), list):
        choices["runner.model"] = [_beside(model, base) for model in choices["runner.model"]]
    return tree


def _beside(model: object, base: Path) -> object:
    is_file = isinstance(model, str) and model.endswith(".json") and (base / model).is_file()
    return str(base / str(model)) if is_file else model
