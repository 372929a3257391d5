"""What `perf sizes` is given: a recording's own steps and curves, or a trace or spec, whose steps a dry run finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...analysis.sizes.costs import SizesCosts
from ...analysis.sizes.stream import SizesStream, sizes_stream
from ...errors import UsageError
from ...instrumentation.recording.reader import Recording
from ...runner.config import RunnerConfig
from ..estimate import duration
from ..loading import Tree, load_tree
from ..resolve import default_device, measured_steps, resolve, workload_of
from ..spec import AXES, SECTIONS, PointSpec, parse_point, resolve_paths
from ..typed import refuse_unknown_keys
from .dry import OUTSIDE_NS, dry_stream
from .optimal import calibration_table, costs_on, ladder_of, sizes_costs
from .watch import UNWATCHED, SizesWatch

_SPECS = (".yaml", ".yml", ".toml")
TOKEN_S = 15e-6
"""What a dry run takes for a token that is said, on a core of a server with some dozens of requests at a time."""
_GRAPHS = "full_and_piecewise"
"""Graph mode of a source that has none of its own: vLLM's default, every step up to the maximum may replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesSource:
    """One source. `tree` is the spec that runs its workload, None where that is not known; a regime was made to last
    `lasts_steps` measured steps, None until every request is answered.
    """

    stream: SizesStream
    costs: SizesCosts
    calibration: pd.DataFrame
    config: RunnerConfig
    facts: tuple[tuple[str, str], ...]
    tree: Mapping[str, Any] | None
    lasts_steps: int | None = None


@dataclass(frozen=True, slots=True)
class CostsAsked:
    """Whose costs count. Where a field is None, the source's own.

    calibration, cost_model  name or file, and the shape in it
    device                   where the lists will run
    runs                     whether they will; else `auto` stands for the GPU that the list is for
    """

    calibration: str | None = None
    cost_model: str | None = None
    device: str | None = None
    runs: bool = False

    def place(self, own: str | None) -> str | None:
        """The device that the costs are of, where the source names `own`."""
        named = self.device or own
        return default_device() if self.runs and named in (None, "auto") else named


def open_source(
    path: Path, trace: Mapping[str, Any], runner: Mapping[str, Any], asked: CostsAsked, watch: SizesWatch = UNWATCHED
) -> SizesSource:
    """`trace` are fields of a trace's section, `runner` switches on top of the source's own. `watch` sees a dry run.

    Raises UsageError for a path that is neither, and where no curve T(size) is known.
    """
    if path.is_dir() or path.suffix == ".json":
        if trace:
            raise UsageError(f"{path}: --limit and --speed belong to a trace; a recording's steps are all taken")
        return _recorded(path, runner, asked)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder; give a recording, a trace or a spec")
    if path.suffix in _SPECS:
        if trace:
            raise UsageError(f"{path}: --limit and --speed belong to a trace; write them into the spec")
        tree = _one_point(path)
    else:
        tree = {"workload": {"trace": {"file": str(path), **trace}}}
    costs = {"calibration": asked.calibration, "cost_model": asked.cost_model}
    tree |= {name: value for name, value in costs.items() if value is not None}
    tree["runner"] = {"graph_mode": _GRAPHS, **(tree.get("runner") or {}), **runner}
    return _dry(tree, path.name, watch, asked.place(tree.get("device")))


def _one_point(path: Path) -> Tree:
    """The sections of a spec. Raises UsageError for axes, of which nobody could say which point is meant."""
    tree = resolve_paths(load_tree(path), path.parent)
    axes = [name for name in AXES if name in tree]
    if axes:
        raise UsageError(f"{path}: {axes[0]}: makes several points, and sizes are found for one; fix its axes")
    try:
        refuse_unknown_keys(PointSpec, tree, "")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return tree


def refuse_embeds(spec: PointSpec) -> None:
    """Raises UsageError for a workload of which steps run eagerly whatever is captured."""
    if spec.workload.embeds_share:
        raise UsageError(
            f"workload.embeds_share: is {spec.workload.embeds_share}; steps with embeddings run in no graph, and lists"
            " of sizes are judged as if every step could; leave it out"
        )


def _dry(tree: dict[str, Any], name: str, watch: SizesWatch, device: str | None) -> SizesSource:
    """Steps of the whole workload with vLLM's ladder captured; `device: sim`, which can be resolved anywhere."""
    spec = resolve({**tree, "device": "sim"})
    refuse_embeds(spec)
    table = calibration_table(spec.calibration, spec.cost_model)
    costs = sizes_costs(table)
    workload = workload_of(spec)
    requests, tokens = len(workload.requests), sum(request.output_len for request in workload.requests)
    about = duration(tokens * TOKEN_S)
    watch.note(f"dry run of {name}: {requests:,} requests that say {tokens:,} tokens, about {about}")
    watch.begin("requests answered in the dry run", requests)
    stream = dry_stream(spec, workload, costs, ladder_of(spec.runner, "vllm"), watch=watch)
    watch.end()
    part = f", interrupted after {len(stream.tokens) + stream.left_out:,} steps" if watch.interrupted else ""
    how = f"modelled: scheduler only, {OUTSIDE_NS // 1000} us a step outside the decoder"
    costs = costs_on(device, spec.runner, costs)
    measured = f"calibration {spec.calibration}, shape {spec.cost_model}, measured in graphs"
    facts = [("steps", f"a dry run of {name}{part}, {how}"), ("times", f"{measured} {_attention(costs)}")]
    if workload.notes:
        facts.insert(1, ("workload", "; ".join(workload.notes)))
    return SizesSource(
        stream=stream, costs=costs, calibration=table, config=spec.runner, facts=tuple(facts), tree=tree,
        lasts_steps=measured_steps(spec.measure, spec.device),
    )  # fmt: skip


def _recorded(path: Path, runner: Mapping[str, Any], asked: CostsAsked) -> SizesSource:
    from ..reporting import recording_at

    recording = recording_at(path)
    own, calibration, cost_model = recording.table("calibration"), asked.calibration, asked.cost_model
    chosen = calibration_table(calibration or "h200", cost_model or "llama-1b") if calibration or cost_model else own
    try:
        costs = sizes_costs(chosen)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    meta = recording.meta
    origin = "of this recording" if chosen is own else f"calibration {calibration or 'h200'}, shape {cost_model}"
    modelled = f", modelled by {meta.calibration}" if meta.modelled else ""
    tree = _tree(recording)
    config = _config(tree, runner)
    costs = costs_on(asked.device or meta.device, config, costs)
    facts = (
        ("steps", f"recorded on {meta.device}{modelled}"),
        ("times", f"curve T(size) {origin}, {_attention(costs)}"),
    )
    return SizesSource(
        stream=sizes_stream(recording), costs=costs, calibration=own, config=config,
        facts=facts, tree=tree, lasts_steps=_lasting(tree),
    )  # fmt: skip


def _attention(costs: SizesCosts) -> str:
    added = ", plus what attention adds in larger graphs"
    return "without attention" + added * (costs.sized is not None)


def _tree(recording: Recording) -> dict[str, Any] | None:
    """The spec in a recording's configuration, where it was made by our runner."""
    configuration = recording.meta.configuration
    if recording.meta.source != "lab" or not {"workload", "runner"} <= set(configuration):
        return None
    return {name: configuration[name] for name in SECTIONS if name in configuration}


def _lasting(tree: Mapping[str, Any] | None) -> int | None:
    if tree is None:
        return None
    spec = parse_point(tree)
    return measured_steps(spec.measure, spec.device)


def _config(tree: Mapping[str, Any] | None, runner: Mapping[str, Any]) -> RunnerConfig:
    """Limits of the recorded runner; the defaults where a recording does not say."""
    known = {field.name for field in dataclasses.fields(RunnerConfig)}
    given = {name: value for name, value in ((tree or {}).get("runner") or {}).items() if name in known}
    free = {"capture_sizes": "default", "max_capture_size": None}
    return dataclasses.replace(RunnerConfig(), **{**given, **free, **runner})
