"""Numbers become text here and nowhere else.

Times get the largest unit that leaves a leading digit and three to four significant digits; integers that identify
something (timestamps, ids) keep every digit.
"""

from __future__ import annotations

import math

from .document import Cell, Link, Missing, Quantity, Unit

UNIT_TITLES: dict[Unit, str] = {
    "ns": "ns", "us": "µs", "ms": "ms", "bytes": "", "fraction": "%", "count": "", "number": "", "exact": "",
}
"""What stands in brackets behind a column's title."""

_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_BYTE_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def significant(value: float, digits: int = 3) -> str:
    """`value` with at least `digits` significant digits, never in exponent form; integers' digits are all kept.

    1234.5 → "1234", 12.34 → "12.3", 0.01234 → "0.0123", 0 → "0".
    """
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return "0" if float(text) == 0 else text


def duration(ns: int | float) -> str:
    """A time in ns as text: 850 → "850 ns", 12345 → "12.3 µs", 1234567 → "1.23 ms", -5000 → "-5.00 µs"."""
    for size, unit in _TIME_STEPS:
        if abs(ns) >= size:
            return f"{significant(ns / size)} {unit}"
    return f"{significant(ns) if isinstance(ns, float) and not ns.is_integer() else int(ns)} ns"


def size(count_bytes: int | float) -> str:
    """A size as text in binary units: 8388608 → "8 MiB", 1536 → "1.50 KiB", 100 → "100 B"."""
    for step, unit in _BYTE_STEPS:
        if abs(count_bytes) >= step:
            scaled = count_bytes / step
            return f"{int(scaled) if scaled == int(scaled) else significant(scaled)} {unit}"
    return f"{int(count_bytes)} B"


def percent(fraction: float) -> str:
    """A fraction as text: 0.1234 → "12.3 %", 0.00012 → "0.012 %", 1.0 → "100 %"."""
    scaled = fraction * 100
    return f"{'100' if round(scaled, 1) == 100 else significant(scaled, 3 if abs(scaled) >= 1 else 2)} %"


def count(value: int | float) -> str:
    """A count with a thin group separator from 10,000 on; a mean of counts with three significant digits."""
    if isinstance(value, float) and not value.is_integer():
        return significant(value)
    whole = int(value)
    return f"{whole:,}" if abs(whole) >= 10_000 else str(whole)


def counted(value: int, one: str, many: str | None = None) -> str:
    """ "1 step", "12 steps"; `many` where an s makes no plural of `one`."""
    return f"{count(value)} {one if value == 1 else many or f'{one}s'}"


def quantity(item: Quantity, column_unit: Unit | None = None) -> str:
    """A quantity as text; inside a column with a unit the unit itself is left out (the title carries it)."""
    text = _in_column(item.value, column_unit) if column_unit else _alone(item.value, item.unit)
    if item.low is None or item.high is None:
        return text
    low, high = ((_in_column(v, column_unit) if column_unit else _alone(v, item.unit)) for v in (item.low, item.high))
    return text if low == high == text else f"{text} ({low} to {high})"


def cell(item: Cell, column_unit: Unit | None = None) -> str:
    """Any cell as plain text."""
    if isinstance(item, Quantity):
        return quantity(item, column_unit)
    if isinstance(item, Missing):
        return f"not measured ({item.reason})" if item.reason else "not measured"
    return item.text if isinstance(item, Link) else item


def sort_value(item: Cell) -> str:
    """What a column sorts by: numbers in full precision, texts as they are, missing values last ("")."""
    if isinstance(item, Quantity):
        return repr(item.value)
    return "" if isinstance(item, Missing) else cell(item)


def _alone(value: int | float, unit: Unit) -> str:
    if unit in ("ns", "us", "ms"):
        return duration(value)
    if unit == "bytes":
        return size(value)
    if unit == "fraction":
        return percent(value)
    if unit == "count":
        return count(value)
    return str(value) if unit == "exact" else significant(value)


def _in_column(value: int | float, unit: Unit) -> str:
    if unit == "us":
        return fixed(value / 1_000)
    if unit == "ms":
        return fixed(value / 1_000_000, 3)
    if unit == "fraction":
        return fixed(value * 100)
    return str(int(value)) if unit == "ns" else _alone(value, unit)


def fixed(value: float, decimals: int = 1) -> str:
    """`value` with a fixed number of decimals, so that a column lines up; never "-0.0"."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text

