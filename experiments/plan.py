"""What a sweep is going to do, written down before it does anything."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import UsageError
from .axes import Choice, check_count, expand, put, with_params
from .loading import Tree
from .resolve import resolve
from .spec import PointSpec
from .typed import convert, refuse_unknown_keys

PLAN_VERSION = 1
_SLUG_MAX = 80


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement. `id` is the hash of everything in `spec` and the repeat; `choice` is what its axes chose."""

    id: str
    slug: str
    choice: Choice
    spec: PointSpec
    repeat: int = 0

    @property
    def folder(self) -> str:
        """The name of its folder below `points/`."""
        return f"{self.slug}--{self.id}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of a sweep in the order of their running, and the specs that they come from."""

    sources: tuple[str, ...]
    points: tuple[Point, ...]

    def to_json(self) -> str:
        """The text of plan.json."""
        points = [
            {"id": p.id, "slug": p.slug, "repeat": p.repeat, "choice": p.choice, "parameters": parameters(p.spec)}
            for p in self.points
        ]
        return json.dumps({"version": PLAN_VERSION, "sources": self.sources, "points": points}, indent=1) + "\n"


def parameters(spec: PointSpec) -> dict[str, Any]:
    """All resolved parameters of a point as plain values, nested by section."""
    tree = msgspec.to_builtins(spec)
    assert isinstance(tree, dict)
    return tree


def _identity(spec: PointSpec, repeat: int) -> str:
    text = json.dumps([parameters(spec), repeat], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return "-".join(f"{key}{_text(below)}" for key, below in value.items())
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value)).strip("-") or "null"


def _slug(choice: Choice, repeat: int, repeats: int) -> str:
    parts = []
    for path, value in choice.items():
        name = path.rsplit(".", 1)[-1]
        plain_word = isinstance(value, str) and path.startswith(("workload.regime", "device"))
        parts.append(_text(value) if plain_word else f"{name}-{_text(value)}")
    if repeats > 1:
        parts.append(f"r{repeat + 1}")
    return ("_".join(parts) or "point")[:_SLUG_MAX].strip("-_.")


def _points_of(tree: Tree) -> list[Point]:
    base, choices = expand(tree)
    refuse_unknown_keys(PointSpec, base, "")  # before any point is named as the place of the mistake
    points: list[Point] = []
    for choice in choices:
        try:
            spec = resolve(put(base, choice))
        except UsageError as error:
            at = ", ".join(f"{path}={value}" for path, value in choice.items())
            raise UsageError(f"{error} (in the point {at})" if at else str(error)) from error
        repeats = spec.measure.repeats
        check_count(len(points) + repeats, "measure.repeats")
        for repeat in range(repeats):
            points.append(Point(_identity(spec, repeat), _slug(choice, repeat, repeats), dict(choice), spec, repeat))
    return points


def make_plan(specs: Sequence[tuple[str, Tree]], axes: Mapping[str, list[Any]]) -> Plan:
    """Expand `specs` (name and tree of each) under the `--param` axes, and resolve every point.

    Raises UsageError that begins with the spec's name: for a bad field, for a point that stands there twice.
    """
    points: dict[str, Point] = {}
    for name, tree in specs:
        try:
            for point in _points_of(with_params(copy.deepcopy(tree), axes)):
                if point.id in points:
                    raise UsageError(
                        f"the point {point.slug} is the same experiment as {points[point.id].slug}; keep one"
                    )
                points[point.id] = point
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    return Plan(tuple(name for name, _ in specs), tuple(points.values()))


def read_plan(text: str, where: str) -> Plan:
    """The plan in the text of a plan.json. Raises UsageError that names `where` when it is none of ours."""
    try:
        tree = json.loads(text)
        version = tree["version"]
        if version != PLAN_VERSION:
            raise UsageError(
                f"{where}: has version {version}, this stepscope reads {PLAN_VERSION}; use the one that wrote it"
            )
        points = tuple(
            Point(p["id"], p["slug"], p["choice"], convert(PointSpec, p["parameters"], "parameters"), p["repeat"])
            for p in tree["points"]
        )
        return Plan(tuple(tree["sources"]), points)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{where}: is not a sweep's plan.json ({type(error).__name__}: {error})") from error
