"""From stored results to series: one for each point, metric and machine, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..gate.fingerprint import IDENTITY
from ..gate.history import Result

_UNKNOWN = ("", "unknown", "n/a", "none")


@dataclass(frozen=True, slots=True)
class Stored:
    """A result and where it stands: `commit` and `time` (ISO 8601) None where the file does not say; `label` always."""

    result: Result
    label: str
    commit: str | None = None
    time: str | None = None

    @property
    def name(self) -> str:
        """The commit, else the file's place."""
        return self.commit or self.label


Machine = tuple[tuple[str, object], ...]
"""The known fields of `IDENTITY` in their order: two results may be compared only where all of it is equal."""


@dataclass(frozen=True, slots=True)
class Series:
    """`values` [n], None where a result has none of this point and metric; `results` [n]."""

    point: str
    metric: str
    machine: Machine
    results: tuple[Stored, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """`unknown`: results that name no GPU, which are of no series: unknown is not equal."""

    series: tuple[Series, ...]
    unknown: tuple[Stored, ...]
    machines: tuple[Machine, ...]


def machine_of(environment: Mapping[str, object]) -> Machine | None:
    """The identity of `environment`; None without a GPU's name."""
    known = tuple((field, environment[field]) for field in IDENTITY if _known(environment.get(field)))
    return known if known and known[0][0] == IDENTITY[0] else None


def _known(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and value.strip().lower() in _UNKNOWN)


def in_order(stored: Sequence[Stored]) -> tuple[Stored, ...]:
    """By time where every result has one, else as given."""
    if all(one.time is not None for one in stored):
        return tuple(sorted(stored, key=lambda one: one.time or ""))
    return tuple(stored)


def gather(stored: Iterable[Stored], choose: Callable[[Iterable[str]], Sequence[str]]) -> Gathered:
    """The series of all points; `choose` takes a point's metrics and returns those to look at.

    A point that a result of the machine lacks, or that failed there, is a hole in its series, not an end.
    """
    by_machine: dict[Machine, list[Stored]] = {}
    unknown = []
    for one in stored:
        machine = machine_of(one.result.machine)
        if machine is None:
            unknown.append(one)
        else:
            by_machine.setdefault(machine, []).append(one)
    series = [found for machine, results in by_machine.items() for found in _of_machine(machine, results, choose)]
    return Gathered(tuple(series), tuple(unknown), tuple(by_machine))


def _of_machine(
    machine: Machine, results: list[Stored], choose: Callable[[Iterable[str]], Sequence[str]]
) -> Iterable[Series]:
    metrics: dict[str, dict[str, None]] = {}
    for one in results:
        for point, metric in one.result.values:
            metrics.setdefault(point, {})[metric] = None
    for point, names in metrics.items():
        for metric in choose(names):
            values = tuple(one.result.values.get((point, metric)) for one in results)
            if any(value is not None for value in values):
                yield Series(point, metric, machine, tuple(results), values)
