"""The points that an arm measures, as the specs say them: not resolved, because that is the arm's own code's to do.

A point is known by what its axes chose ("commit_order=first,regime=steady"), so both arms name it alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ...analysis.gate.matching import ONLY_POINT
from ...errors import UsageError
from .. import specs
from ..axes import expand, nothing_left, parse_params, put, with_params
from ..excluding import Excludes
from ..loading import Tree, load_tree
from ..point import Choice
from ..spec import resolve_paths
from .arms import Arm

Points = Mapping[str, Tree]
_DEFAULT = "gate.yaml"
_MOST_STEPS = 100_000
"""A longer block hides more drift of the machine than its steps take away of the noise."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a launch is cut: `steps` counted steps a block behind `settle` others, one more at its end."""

    steps: int = 50
    settle: int = 3

    def __post_init__(self) -> None:
        for name, option, least in (("steps", "--block-steps", 10), ("settle", "settle", 0)):
            if not least <= getattr(self, name) <= _MOST_STEPS:
                raise UsageError(
                    f"gate blocks: {option} is {getattr(self, name)}; give at least {least}, at most {_MOST_STEPS}"
                )

    def launch_steps(self, pairs: int) -> int:
        """Steps of one arm in a launch."""
        return pairs * (self.settle + self.steps + 1)


def points_of(arm: Arm, spec: Path | None, params: Sequence[str], steps: int) -> Points:
    """Name -> tree of every point of `arm`; `spec`: what both arms measure unless they name their own (None: ours).

    A rule of `exclude` matches what the spec says and our defaults; what `auto` stands for is the arm's own to say.
    """
    own = _tree(arm.spec or spec)
    axes = {**parse_params(params), **{path: [value] for path, value in arm.switches.items()}}
    tree = with_params(own, axes)
    base, choices = expand(tree)
    excludes = Excludes(tree)
    points: dict[str, Tree] = {}
    for choice in choices:
        if excludes.drop_unresolved(put(base, choice)):
            continue
        name = _name(choice)
        if name in points:
            raise UsageError(f"--{arm.name}: two points are called {name}; axes must differ in what they choose")
        points[name] = _measured(put(base, choice), steps)
    excludes.refuse_unused(tree, own)
    if not points:
        raise nothing_left()
    return points


def _tree(path: Path | None) -> Tree:
    if path is not None:
        return resolve_paths(load_tree(path), path.resolve().parent)
    with resources.as_file(resources.files(specs) / _DEFAULT) as default:
        return load_tree(default)


def _measured(tree: Tree, steps: int) -> Tree:
    """The tree with the gate's own lengths: requests must last for every block of a launch."""
    measure: dict[str, Any] = {"steps": steps}
    warmup = (tree.get("measure") or {}).get("warmup_steps")
    if warmup is not None:
        measure["warmup_steps"] = warmup
    return {**tree, "measure": measure}


def _name(choice: Choice) -> str:
    return ",".join(f"{path.rsplit('.', 1)[-1]}={_word(value)}" for path, value in choice.items()) or ONLY_POINT


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
