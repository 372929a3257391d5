"""In what two runs differ before anything is timed: their parameters, and the work of a step.

A difference of two times means nothing where one run had four times the rows; so this is said before the times are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .speculation import speculation
from .stats import median
from .tables import Process

SECTIONS = ("workload", "runner", "device", "calibration", "cost_model", "measure")
"""Of a run's configuration what somebody chose; the rest (scheduler, outcome, checks) follows from it."""
WORK = {
    "num_reqs": "rows", "num_tokens": "tokens", "drafted_tokens": "drafts", "num_launches": "launching calls",
    "num_h2d": "copies to the device",
}  # fmt: skip
ALIKE = 0.05
"""Medians that lie no farther apart, as a share of the larger one, are the same work."""


@dataclass(frozen=True, slots=True)
class Differing:
    """A parameter (dotted path) or a figure of a step's work that differs, as text; null where a side has none."""

    name: str
    a: str | None
    b: str | None


def differing_settings(a: Mapping[str, object], b: Mapping[str, object]) -> tuple[Differing, ...]:
    """Parameters that differ, in the order of the sections; empty unless both configurations are those of a run."""
    if "runner" not in a or "runner" not in b:
        return ()
    first, second = dict(_flat(a)), dict(_flat(b))
    return tuple(
        Differing(name, first.get(name), second.get(name))
        for name in dict.fromkeys((*first, *second)) if first.get(name) != second.get(name)
    )


def _flat(configuration: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    left = [(name, configuration[name]) for name in reversed(SECTIONS) if name in configuration]
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):
            left += [(f"{name}.{key}", value[key]) for key in reversed(value)]
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)


def differing_work(a: Process, b: Process) -> tuple[Differing, ...]:
    """Medians a counted step of what both sides recorded, and the phases, where they differ."""
    found = []
    for column, name in WORK.items():
        first, second = _median(a, column), _median(b, column)
        if first is not None and second is not None and abs(first - second) > ALIKE * max(first, second):
            found.append(Differing(f"{name} a step (median)", f"{first:g}", f"{second:g}"))
    length, other = speculation(a).accepted_length, speculation(b).accepted_length
    if length is not None and other is not None and abs(length - other) > ALIKE * max(length, other):
        found.append(Differing("accepted length: tokens a request and step (mean)", f"{length:.3g}", f"{other:.3g}"))
    phases = [", ".join(sorted({str(name) for name in side.rows("phases").texts("name") if name})) for side in (a, b)]
    if phases[0] != phases[1]:
        found.append(Differing("phases", phases[0] or None, phases[1] or None))
    return tuple(found)


def _median(side: Process, column: str) -> float | None:
    steps = side.counted("steps")
    values, known = steps.ints(column)
    value = median(np.asarray(values[known]))
    return None if value is None else float(value)
