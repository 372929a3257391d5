"""Trees into typed, frozen dataclasses; each refusal is one line that names the field, what is wrong and what fits."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ..errors import UsageError

T = TypeVar("T")


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UsageError:
    """The error for a name that nobody knows: it offers the nearest known one, or lists them all."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
    mend = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
    return UsageError(f"{where}: unknown {kind} {name!r}; {mend}" if where else f"unknown {kind} {name!r}; {mend}")


def _inner_dataclass(hint: object) -> type | None:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if isinstance(option, type) and dataclasses.is_dataclass(option):
            return option
    return None


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    """Evaluated once a class: most of the time of planning went there."""
    return typing.get_type_hints(cls)


def refuse_unknown_keys(cls: type, tree: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for the first key in `tree`, at any depth, that is no field of its dataclass."""
    hints = _hints(cls)
    for key, value in tree.items():
        if key not in hints:
            raise unknown("key", key, hints, where)
        below = _inner_dataclass(hints[key])
        if below is not None and isinstance(value, Mapping):
            refuse_unknown_keys(below, value, _join(where, key))


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _choices(cls: type, path: list[str]) -> str:
    """The values that a field with a Literal takes, for the message; empty for other fields."""
    hint: Any = cls
    for name in path:
        owner = _inner_dataclass(hint)
        hint = _hints(owner).get(name) if owner else None
    options = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    known = [str(value) for option in options for value in _literals(option)]
    if not known:
        return ""
    return f"; one of: {', '.join(known)}{', or a whole number' if int in options else ''}"


def _literals(hint: object) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def convert(cls: type[T], tree: Mapping[str, Any], where: str) -> T:
    """`tree` as a `cls`, strictly typed. `where` (a section's name, or empty) begins the field's path in errors."""
    refuse_unknown_keys(cls, tree, where)
    try:
        return msgspec.convert(tree, cls)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at `$")
        path = at.rstrip("`").lstrip(".")
        names = [name for name in re.split(r"[.\[].*?\]?", path) if name] if "[" in path else path.split(".")
        field = ".".join(part for part in (where, path) if part)
        mend = "; write a list, in brackets" if problem.startswith("Expected `array`") else _choices(cls, names)
        told = f"{problem.replace('`', '')}{mend}"
        raise UsageError(f"{field}: {told}" if field else told) from error
