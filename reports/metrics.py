"""Names of figures as titles and units. A name carries its unit at its end, so an unknown one is still written well."""

from __future__ import annotations

from collections.abc import Mapping

from .document import Cell, Column, Missing, Quantity, Unit
from .formatting import UNIT_TITLES

_SUFFIXES: tuple[tuple[str, Unit], ...] = (
    ("_ns", "ns"), ("_bytes", "bytes"), ("_share", "fraction"), ("_fraction", "fraction"), ("_overlap", "fraction"),
)


def unit_of(name: str) -> Unit:
    """"period_p50_ns" → ns, "kv_bytes" → bytes, "waste_share" → fraction, "steps" → count."""
    if name.endswith("_length_mean"):
        return "number"
    return next((unit for suffix, unit in _SUFFIXES if name.endswith(suffix)), "count")


def title_of(name: str) -> str:
    """"period_p50_ns" → "period p50": the name without its unit, as words."""
    for suffix, unit in _SUFFIXES:
        if name.endswith(suffix):
            stem = name.removesuffix(suffix) if unit in ("ns", "bytes") else name
            # A size's unit stands in its cells: without the word its title would be that of the time of the same name.
            return stem.replace("_", " ") + (" size" if unit == "bytes" else "")
    return name.replace("_", " ")


def column_of(name: str) -> Column:
    """A column for the metric; times in µs, fractions in %."""
    unit = unit_of(name)
    return Column(title_of(name), "us" if unit == "ns" else unit, numeric=True, help=name)


def cell_of(
    name: str, metrics: Mapping[str, int | float | None], reasons: Mapping[str, str], status: str = "ok",
) -> Cell:
    """The metric of one point, or why it has none."""
    value = metrics.get(name)
    if value is not None:
        return Quantity(value, unit_of(name))
    return Missing(reasons.get(name) or (f"the point is {status}" if status != "ok" else "no such figure was computed"))


def plot_title(name: str) -> str:
    """A panel's heading: "exposed p50 [µs]", "padding token share [%]"."""
    unit = UNIT_TITLES["us" if unit_of(name) == "ns" else unit_of(name)]
    return f"{title_of(name)} [{unit}]" if unit else title_of(name)


def plot_scale(name: str, value: float | None) -> float | None:
    """The value on that axis: µs for times, % for fractions, as it is for the rest."""
    if value is None:
        return None
    factor = {"ns": 0.001, "fraction": 100.0}.get(unit_of(name), 1.0)
    return round(value * factor, 4)
