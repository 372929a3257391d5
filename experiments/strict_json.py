"""JSON that results are read from: a field given twice is refused, because whichever is taken, the other is ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .loading import read_text

LARGEST = 2**1023
"""Of whole numbers: no larger one is a float."""


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in `path`. UsageError names the file where it is cut, says a field twice or holds something else."""
    try:
        tree = json.loads(read_text(path), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not whole JSON ({error}); measure it again") from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: holds {type(tree).__name__}; expected a mapping of fields")
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"field {twice!r} is given twice")
    return tree


def check_schema(value: object, known: int, where: str) -> None:
    """UsageError unless `value` is the whole number `known`: true and 1.0 are not."""
    if type(value) is not int or value != known:
        raise UsageError(f"{where}: schema is {value!r}; this version reads {known}")
