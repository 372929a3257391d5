"""Each stored result counts once: a copy would make a history longer than it is, and its spread smaller."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...analysis.gate.direction import is_time
from ...analysis.gate.history import Result
from ...errors import UsageError

Named = tuple[str, Result, object]
"""Where a result is; itself; what else tells two of them apart (its commit, its time)."""


def refuse_same_paths(paths: Iterable[Path]) -> None:
    """UsageError where two of `paths` are one file or folder."""
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UsageError(f"{path}: is given twice; a result counts once")
        seen.add(path.resolve())


def refuse_copies(results: Sequence[Named]) -> None:
    """UsageError where two results of one environment hold the same values, times among them: one is a copy."""
    seen: dict[str, str] = {}
    for where, result, known in results:
        if not any(_timed(metric, value) for (_, metric), value in result.values.items()):
            continue
        values = sorted((*name, value) for name, value in result.values.items())
        key = json.dumps([dict(result.machine), values, sorted(result.failures), known], sort_keys=True, default=str)
        if key in seen:
            raise UsageError(f"{where}: holds the same values as {seen[key]}; a result counts once")
        seen[key] = where


def _timed(metric: str, value: float | None) -> bool:
    return is_time(metric) and value is not None and math.isfinite(value) and value > 0
