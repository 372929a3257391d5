"""The rules of a spec's `exclude` against points as they are resolved: a field that is at its default matches too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import UsageError
from ..workloads.regimes import REGIMES
from .axes import dig, exclude_rules, expand
from .loading import Tree
from .point import Choice, parameters
from .sources import SHARED_SIZES
from .spec import PointSpec

_DEFAULTS = parameters(PointSpec())
_OWN = ("workload.settings.", "workload.scheduler.")


class Excludes:
    """The rules of one spec. Raises UsageError for a path that nothing has."""

    def __init__(self, tree: Tree) -> None:
        self._rules = exclude_rules(tree)
        self._used: set[int] = set()

    def drop(self, spec: PointSpec) -> bool:
        """Whether a rule matches the resolved point `spec`."""
        return self._matched(parameters(spec)) if self._rules else False

    def drop_unresolved(self, tree: Tree) -> bool:
        """Whether a rule matches the sections in `tree`, which cannot be resolved."""
        return self._matched(tree)

    def _matched(self, tree: Mapping[str, Any]) -> bool:
        found = {
            index for index, rule in enumerate(self._rules)
            if all(_is(value_at(tree, path), wanted) for path, wanted in rule.items())
        }  # fmt: skip
        self._used |= found
        return bool(found)

    def refuse_unused(self, *trees: Tree) -> None:
        """Raise UsageError for a rule that has dropped nothing, and could drop nothing of any of `trees`.

        One of them is the spec as its file says: the command line may leave a rule without its points.
        """
        for index, rule in enumerate(self._rules):
            if index in self._used or any(_could_match(rule, tree) for tree in trees):
                continue
            told = ", ".join(f"{path}: {value}" for path, value in rule.items())
            raise UsageError(f"exclude[{index}]: {{{told}}} matches no point; mend it or drop it")


def _could_match(rule: Choice, tree: Tree) -> bool:
    base, choices = expand({key: value for key, value in tree.items() if key != "exclude"})
    return any(
        all(_might(choice.get(path, value_at(base, path)), wanted) for path, wanted in rule.items())
        for choice in choices
    )


def _is(value: object, wanted: object) -> bool:
    plain = list(value) if isinstance(value, tuple) else value
    return plain in (wanted if isinstance(wanted, list) else [wanted])


def _might(value: object, wanted: object) -> bool:
    return value == "auto" or _is(value, wanted)  # what `auto` stands for is the machine's affair


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a point's sections, or the default that it has there; None for neither."""
    value = dig(tree, path)
    if value is None:
        value = dig(_DEFAULTS, path)
    if value is not None or not path.startswith(_OWN):
        return value
    name = path.rsplit(".", 1)[-1]
    size = dig(tree, f"runner.{name}") if name in SHARED_SIZES else None
    stated = dig(tree, f"workload.settings.{name}") if size is None else size
    return _regime_default(dig(tree, "workload.regime"), name) if stated is None else stated


def _regime_default(regime: object, name: str) -> Any:
    cls = REGIMES.get(regime) if isinstance(regime, str) else None
    if cls is None:
        return None
    found = [field.default for field in msgspec.structs.fields(cls) if field.name == name]
    return found[0] if found and found[0] is not msgspec.NODEFAULT else None
