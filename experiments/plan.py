"""What a sweep is going to do, written down before it does anything."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from .axes import check_count, expand, nothing_left, put, with_params
from .excluding import Excludes
from .loading import Tree
from .named_files import digests
from .point import PLAN_VERSION, Choice, Point, parameters, point_entry, read_point
from .resolve import resolve
from .spec import AXES, PointSpec
from .typed import refuse_unknown_keys

__all__ = ["PLAN_VERSION", "Plan", "Point", "make_plan", "parameters", "read_plan"]

_READABLE = (1, 2)
_SLUG_MAX = 80
_SLUG = re.compile(r"[A-Za-z0-9.][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of a sweep in the order of their running, and the specs that they come from.

    files     digests of the files that points name (`named_files`); plans of earlier versions have none
    began_in  where relative names of files begin, told from the folder of the sweep; empty where that was not written
    """

    sources: tuple[str, ...]
    points: tuple[Point, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    began_in: str = ""

    def to_json(self) -> str:
        """The text of plan.json."""
        tree = {
            "version": PLAN_VERSION, "sources": self.sources, "files": dict(self.files),
            "began_in": self.began_in, "points": [point_entry(point) for point in self.points],
        }  # fmt: skip
        return json.dumps(tree, indent=1) + "\n"


def _digest(plain: Mapping[str, Any]) -> str:
    """A point's id, of its parameters as they are written: a later version may know more of them."""
    text = json.dumps([PLAN_VERSION, plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return "-".join(f"{key}{_text(below)}" for key, below in value.items())
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value)).strip("-") or "null"


def _slug(choice: Choice) -> str:
    parts = []
    for path, value in choice.items():
        name = path.rsplit(".", 1)[-1]
        plain_word = isinstance(value, str) and path.startswith(("workload.regime", "device"))
        parts.append(_text(value) if plain_word else f"{name}-{_text(value)}")
    return ("_".join(parts) or "point")[:_SLUG_MAX].strip("-_.")


def _points_of(tree: Tree, own: Tree, *, elsewhere: bool) -> list[Point]:
    """The points of `tree`, which is `own`, as its file says, with the command line's word in it."""
    base, choices = expand(tree)
    excludes = Excludes(tree)
    refuse_unknown_keys(PointSpec, base, "")  # before any point is named as the place of the mistake
    points: list[Point] = []
    for choice in choices:
        sections = put(base, choice)
        try:
            spec = resolve(sections, elsewhere=elsewhere)
        except UsageError as error:
            if excludes.drop_unresolved(sections):
                continue
            at = ", ".join(f"{path}={value}" for path, value in choice.items())
            raise UsageError(f"{error} (in the point {at})" if at else str(error)) from error
        if excludes.drop(spec):
            continue
        repeats = spec.measure.repeats
        check_count(len(points) + repeats, "measure.repeats")
        identity, slug = _digest(parameters(spec)), _slug(choice)
        points += [Point(identity, slug, dict(choice), spec, repeat) for repeat in range(repeats)]
    excludes.refuse_unused(tree, own)
    if not points:
        raise nothing_left()
    return points


def _refuse_empty_axes(tree: Tree) -> None:
    """A key without anything below it: what was meant to stand there would not be run, without a word."""
    empty = [name for name in AXES if name in tree and tree[name] is None]
    if empty:
        raise UsageError(f"{empty[0]}: holds nothing; write what belongs there, or drop the key")


def make_plan(
    specs: Sequence[tuple[str, Tree]], axes: Mapping[str, list[Any]], zips: Mapping[str, list[Any]] | None = None,
    *, elsewhere: bool = False,
) -> Plan:  # fmt: skip
    """Expand `specs` (name and tree of each) under the `--param` axes and `--zip`, and resolve every point.

    `elsewhere`: for other machines than this one (see `resolve`).

    Raises UsageError that begins with the spec's name: for a bad field, for a point that stands there twice.
    """
    points: dict[str, Point] = {}
    for name, tree in specs:
        try:
            _refuse_empty_axes(tree)
            for point in _points_of(with_params(copy.deepcopy(tree), axes, zips), tree, elsewhere=elsewhere):
                if point.key in points:
                    raise UsageError(
                        f"the point {point.slug} is the same experiment as {points[point.key].slug}; keep one"
                    )
                points[point.key] = point
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    files = digests(point.spec for point in points.values())
    return Plan(tuple(name for name, _ in specs), tuple(points.values()), files)


def read_plan(text: str, where: str) -> Plan:
    """The plan in the text of a plan.json. Raises UsageError that names `where` when it is none of ours."""
    try:
        tree = json.loads(text)
        version = tree["version"]
        if version not in _READABLE:
            raise UsageError(f"has version {version}, this stepscope reads {PLAN_VERSION}; use the one that wrote it")
        points = tuple(_read_entry(entry, version) for entry in tree["points"])
        sources = tuple(tree["sources"])
        files = {str(path): str(content) for path, content in tree.get("files", {}).items()}
        began_in = str(tree.get("began_in", ""))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        told = "nested too deep" if isinstance(error, RecursionError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"{where}: is not a sweep's plan.json ({told})") from error
    if not points:
        raise UsageError(f"{where}: plans no point; choose another --out and start anew")
    if len({point.key for point in points}) < len(points):
        raise UsageError(f"{where}: names a point twice; choose another --out and start anew")
    return Plan(sources, points, files, began_in)


def _read_entry(entry: Mapping[str, Any], version: int) -> Point:
    """A point whose name and id are what its parameters make them: folders are named by both."""
    point = read_point(entry, version)
    if not _SLUG.fullmatch(point.slug) or type(point.repeat) is not int:
        raise UsageError(
            f"point {point.id!r} is called {point.slug!r}, repeat {point.repeat!r}; it was changed by hand"
        )
    if version == PLAN_VERSION and point.id != (expected := _digest(entry["parameters"])):
        raise UsageError(f"point {point.id!r} has the parameters of {expected}; it was changed by hand, start anew")
    return point
