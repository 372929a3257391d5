"""From the axes of a spec to its points: grid, zip, points, exclude, and `--param` from the command line.

    grid:     {runner.commit_order: [first, last], workload.regime: [steady, churn]}     every combination
    zip:      {runner.max_num_seqs: [8, 64], runner.table_width: [512, 8192]}            side by side, equal lengths
    points:   [{runner.staging: pageable}, {runner.staging: pinned_ring}]                 as they stand
    exclude:  [{workload.regime: [churn], runner.commit_order: skip}]                    drops what matches all

Whole numbers may be ranges (see `ranges`): `max_num_seqs: 2^3:2^8`.
A point is one choice from each of the three, so axes multiply. Names are dotted paths into the sections.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..runner.config import RunnerConfig
from ..workloads.regimes import REGIMES
from ..workloads.scheduler.config import SchedulerConfig
from .loading import Tree, parse_value
from .point import Choice
from .ranges import written_out
from .spec import AXES, SECTIONS, MeasureSpec, PointSpec, TraceSpec, WorkloadSpec
from .typed import refuse_unknown_keys, unknown

MAX_POINTS = 100_000

_PLAIN = ("device", "calibration", "cost_model", "claim")
_SHORT = {
    **{field.name: f"workload.trace.{field.name}" for field in dataclasses.fields(TraceSpec)},
    **{field.name: f"measure.{field.name}" for field in dataclasses.fields(MeasureSpec)},
    **{field.name: f"workload.{field.name}" for field in dataclasses.fields(WorkloadSpec)},
    **{field.name: f"runner.{field.name}" for field in dataclasses.fields(RunnerConfig)},
}


def full_path(name: str) -> str:
    """The dotted path of `name`, which may be a bare field name of a section (`commit_order`)."""
    if name in _PLAIN:
        return name
    if "." in name:
        section = name.split(".", 1)[0]
        if section not in SECTIONS:
            raise unknown("section", section, SECTIONS)
        return name
    if name in _SHORT:
        return _SHORT[name]
    if any(name in regime.__struct_fields__ for regime in REGIMES.values()):
        raise UsageError(f"unknown parameter {name!r}; what is a regime's own is written workload.settings.{name}")
    raise unknown("parameter", name, [*_SHORT, *_PLAIN])


def check_count(points: int, where: str) -> None:
    """Refuse more points than a sweep could ever measure, before they are written out one by one."""
    if points > MAX_POINTS:
        raise UsageError(f"{where}: {points} points; at most {MAX_POINTS}, take fewer values")


def _listed(axis: str, values: object) -> list[Any]:
    if not isinstance(values, list):
        raise UsageError(f"{axis}: expected a list of values, got {values!r}; write [{values}]")
    if not values:
        raise UsageError(f"{axis}: the list is empty; give at least one value or drop the axis")
    seen: list[str] = [json.dumps(value, sort_keys=True) for value in values]
    for index, text in enumerate(seen):
        if text in seen[:index]:
            raise UsageError(f"{axis}: {values[index]!r} is listed twice; keep one")
    return values


def _mapping(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name}: expected a mapping from parameter to values, got {type(value).__name__}")
    paths = [full_path(key) for key in value]
    for index, path in enumerate(paths):
        if path in paths[:index]:
            raise UsageError(f"{name}: {path} is given twice; keep one")
    return dict(zip(paths, value.values(), strict=True))


def _grid(value: object) -> list[Choice]:
    axes = {
        path: _listed(f"grid.{path}", written_out(f"grid.{path}", values))
        for path, values in _mapping("grid", value).items()
    }
    check_count(math.prod(len(values) for values in axes.values()), "grid")
    return [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]


def _zipped(value: object) -> list[Choice]:
    axes: dict[str, list[Any]] = {}
    for path, given in _mapping("zip", value).items():
        values = written_out(f"zip.{path}", given)
        if not isinstance(values, list) or not values:
            raise UsageError(f"zip.{path}: expected a list with at least one value")
        axes[path] = values
    lengths = {path: len(values) for path, values in axes.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        raise UsageError(f"zip: the lists must be equally long ({told})")
    return [dict(zip(axes, row, strict=True)) for row in zip(*axes.values(), strict=True)]


def _points(value: object) -> list[Choice]:
    return [_mapping(f"points[{index}]", point) for index, point in enumerate(_listed("points", value))]


def exclude_rules(tree: Tree) -> list[Choice]:
    """The rules of `exclude` by full paths. Raises UsageError for a path that no point can have."""
    excludes = tree.get("exclude")
    if excludes is None:
        return []
    rules = [_mapping(f"exclude[{index}]", rule) for index, rule in enumerate(_listed("exclude", excludes))]
    for index, rule in enumerate(rules):
        for path in rule:
            _refuse_unknown_path(path, f"exclude[{index}]")
    return rules


def _refuse_unknown_path(path: str, where: str) -> None:
    refuse_unknown_keys(PointSpec, put({}, {path: None}), where)
    section, _, name = path.rpartition(".")
    if section == "workload.settings" and not any(name in regime.__struct_fields__ for regime in REGIMES.values()):
        raise unknown("setting", name, {n for regime in REGIMES.values() for n in regime.__struct_fields__}, where)
    if section == "workload.scheduler":
        refuse_unknown_keys(SchedulerConfig, {name: None}, f"{where}.{section}")


def _excluded(choice: Choice, tree: Tree, rules: Sequence[Mapping[str, Any]]) -> bool:
    def value_of(path: str) -> Any:
        return choice[path] if path in choice else dig(tree, path)

    return any(
        all(value_of(path) in (wanted if isinstance(wanted, list) else [wanted]) for path, wanted in rule.items())
        for rule in rules
    )


def dig(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where nothing stands."""
    value: Any = tree
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def put(tree: Tree, choice: Choice) -> Tree:
    """A copy of `tree` with each dotted path of `choice` set, the shorter paths first: details win over sections."""
    result = copy.deepcopy(tree)
    for path, value in sorted(choice.items(), key=lambda item: item[0].count(".")):
        *parents, last = path.split(".")
        below = result
        for name in parents:
            if below.get(name) is None:
                below[name] = {}
            below = below[name]
            if not isinstance(below, dict):
                raise UsageError(f"{path}: {name} holds a value, not fields")
        below[last] = copy.deepcopy(value)
    return result


def expand(tree: Tree) -> tuple[Tree, list[Choice]]:
    """The spec without its axes, and what each of its points changes (one empty choice where there are no axes)."""
    base = {key: value for key, value in tree.items() if key not in AXES}
    makers = {"grid": _grid, "zip": _zipped, "points": _points}
    factors = [make(tree[name]) for name, make in makers.items() if tree.get(name) is not None]
    check_count(math.prod(len(choices) for choices in factors), "axes")
    _refuse_shared_paths(factors)
    combined = [{key: value for part in parts for key, value in part.items()} for parts in itertools.product(*factors)]
    rules = exclude_rules(tree)
    kept = [choice for choice in combined if not _excluded(choice, base, rules)]
    if not kept:
        raise nothing_left()
    return base, kept


def nothing_left() -> UsageError:
    """The error for rules that match every point."""
    return UsageError("exclude: nothing is left to run; every point matches a rule")


def with_cases(tree: Tree, cases: Sequence[str]) -> Tree:
    """The spec with an axis of batches in the place of its source of requests. Raises UsageError for a case twice."""
    workload = tree.get("workload") or {}
    kept = {name: value for name, value in workload.items() if name in ("scheduler", "seed")}
    grid = {**(tree.get("grid") or {}), "workload.case": _listed("--case", list(cases))}
    rules = [rule for rule in exclude_rules(tree) if not any(path.startswith("workload.") for path in rule)]
    others = {name: value for name, value in tree.items() if name != "exclude"}
    return {**others, "workload": kept, "grid": grid, **({"exclude": rules} if rules else {})}


def _refuse_shared_paths(factors: Sequence[Sequence[Choice]]) -> None:
    """A parameter that two of grid, zip and points set would have one of its values dropped without a word."""
    seen: set[str] = set()
    for choices in factors:
        paths = {path for choice in choices for path in choice}
        if paths & seen:
            raise UsageError(f"axes: {sorted(paths & seen)[0]} is in two of grid, zip and points; keep it in one")
        seen |= paths


def parse_params(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`["commit_order=first,last"]` as axes. Raises UsageError for what is no `key=v1[,v2 ...]`."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--param {text}: expected key=v1[,v2 ...]")
        path = full_path(name.strip())
        if path in axes:
            raise UsageError(f"--param {text}: {path} is given twice; list its values with commas")
        parts = _split(values)
        if not all(parts):
            raise UsageError(f"--param {text}: a value is empty")
        try:
            parsed = written_out(path, [parse_value(part) for part in parts])
        except UsageError as error:
            raise UsageError(f"--param {text}: {error}") from error
        axes[path] = _listed(f"--param {path}", parsed)
    return axes


def parse_zips(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`["max_num_seqs,table_width=8/512,64/8192"]` as axes that go side by side. Raises UsageError."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        names, sign, rows = text.partition("=")
        paths = [full_path(name.strip()) for name in names.split(",")] if sign else []
        if len(paths) < 2:
            raise UsageError(f"--zip {text}: expected key1,key2=v1/v2[,v1/v2 ...]")
        for row in _split(rows):
            values = row.split("/")
            if len(values) != len(paths) or not all(value.strip() for value in values):
                raise UsageError(f"--zip {text}: {row!r} has not one value for each of {', '.join(paths)}")
            for path, value in zip(paths, values, strict=True):
                axes.setdefault(path, []).append(_parsed(text, value))
    return axes


def _parsed(text: str, value: str) -> Any:
    try:
        return parse_value(value)
    except UsageError as error:
        raise UsageError(f"--zip {text}: {error}") from error


def _split(values: str) -> list[str]:
    """At commas outside brackets, so that `[1,2],default` is two values."""
    parts, depth = [""], 0
    for char in values:
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def with_params(tree: Tree, axes: Mapping[str, list[Any]], zips: Mapping[str, list[Any]] | None = None) -> Tree:
    """The spec with the command line's word in it: it replaces what the file says of the same parameter."""
    result = copy.deepcopy(tree)
    if zips:
        others = [key for key in result.get("zip") or {} if full_path(key) not in zips]
        if others:
            raise UsageError(f"zip: the spec zips {', '.join(others)}, and --zip other parameters; a sweep has one zip")
        result["zip"] = dict(zips)
        if isinstance(result.get("grid"), dict):
            result["grid"] = {key: v for key, v in result["grid"].items() if full_path(key) not in zips} or None
        twice = [path for path in zips if path in axes]
        if twice:
            raise UsageError(f"--zip: {twice[0]} is given by --param as well; keep one")
    for name in ("grid", "zip"):
        if isinstance(result.get(name), dict):
            result[name] = {key: v for key, v in result[name].items() if full_path(key) not in axes} or None
    single = {path: values[0] for path, values in axes.items() if len(values) == 1}
    many = {path: values for path, values in axes.items() if len(values) > 1}
    result = put(result, single)
    if many:
        result["grid"] = {**(result.get("grid") or {}), **many}
    return result
