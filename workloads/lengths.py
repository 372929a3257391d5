"""How long prompts and answers are: distributions of token counts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import UsageError

Lengths = npt.NDArray[np.int64]
MAX_TOKENS = 1_000_000
"""Longest sequence that a distribution without an upper limit of its own may draw."""
_MOST = 2**31 - 1


class _Config(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base: written in a spec as `{kind: <name>, ...}`."""


class Fixed(_Config, frozen=True, kw_only=True, tag="fixed"):
    """Every length is `value`."""

    value: int

    def __post_init__(self) -> None:
        _check_limits("fixed", self.value, self.value)

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]."""
        return np.full(count, self.value, dtype=np.int64)


class Uniform(_Config, frozen=True, kw_only=True, tag="uniform"):
    """Integers from `low` to `high`, both included. Explicit ends: tools disagree on what a range ratio means."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_limits("uniform", self.low, self.high, names=("low", "high"))

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]."""
        return rng.integers(self.low, self.high, size=count, endpoint=True, dtype=np.int64)


class Normal(_Config, frozen=True, kw_only=True, tag="normal"):
    """Normal, rounded and clipped to [min, max]; clipping moves the mean where the tails reach the limits."""

    mean: float
    stddev: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        _check_limits("normal", self.min, self.max)
        _check_scale("normal", "stddev", self.stddev)

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]."""
        return _clip(rng.normal(self.mean, self.stddev, size=count), self.min, self.max)


class LogNormal(_Config, frozen=True, kw_only=True, tag="lognormal"):
    """exp of a normal: `median` tokens, `sigma` the standard deviation of the logarithm; clipped to [min, max]."""

    median: float
    sigma: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        _check_limits("lognormal", self.min, self.max)
        _check_scale("lognormal", "sigma", self.sigma)
        if not self.median > 0:
            raise UsageError(f"lengths lognormal: median is {self.median}; it must be above 0")

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]."""
        return _clip(rng.lognormal(np.log(self.median), self.sigma, size=count), self.min, self.max)


class Zipf(_Config, frozen=True, kw_only=True, tag="zipf"):
    """P(min + k) proportional to (k + 1) ** -theta for k = 0 .. max - min: `min` is the most frequent length."""

    theta: float
    min: int
    max: int

    def __post_init__(self) -> None:
        _check_limits("zipf", self.min, self.max)
        _check_scale("zipf", "theta", self.theta)

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]; by inversion of the cumulative distribution."""
        weights = np.arange(1, self.max - self.min + 2, dtype=np.float64) ** -self.theta
        cumulative = np.cumsum(weights)
        ranks = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        lengths: Lengths = np.minimum(ranks, self.max - self.min).astype(np.int64) + self.min
        return lengths


class Empirical(_Config, frozen=True, kw_only=True, tag="empirical"):
    """Drawn with replacement from a file: one integer a line, or a CSV with a header and a named `column`."""

    path: str
    column: str | None = None
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        _check_limits("empirical", self.min, self.max)

    def draw(self, count: int, rng: np.random.Generator) -> Lengths:
        """`count` lengths, int64 [count]. Raises UsageError where the file does not hold them."""
        observed = _read_column(Path(self.path), self.column)
        return _clip(rng.choice(observed, size=count), self.min, self.max)


LengthConfig: TypeAlias = Fixed | Uniform | Normal | LogNormal | Zipf | Empirical


def _clip(values: npt.NDArray[np.float64] | Lengths, low: int, high: int) -> Lengths:
    return np.clip(np.rint(values), low, high).astype(np.int64)


def _read_column(path: Path, column: str | None) -> Lengths:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise UsageError(f"lengths empirical: {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"lengths empirical: {path}: no text file of lengths ({error})") from error
    position, width = 0, 1
    if column is not None:
        _, header = rows.pop(0) if rows else (0, [])
        if column not in header:
            raise UsageError(f"lengths empirical: {path}: no column {column!r}; it has {', '.join(header) or 'none'}")
        position, width = header.index(column), len(header)
    # a row of another width is torn, or has commas in its numbers: "1,087" is not 1
    values = [_length(path, line, row, row[position] if len(row) == width else "") for line, row in rows]
    if not values:
        raise UsageError(f"lengths empirical: {path}: no lengths in it")
    return np.array(values, dtype=np.int64)


def _length(path: Path, line: int, row: list[str], cell: str) -> int:
    try:
        value = int(cell)
    except ValueError:
        value = 0
    if not 1 <= value <= MAX_TOKENS:
        raise UsageError(
            f"lengths empirical: {path} line {line}: {','.join(row)[:80]!r} is no length;"
            f" give integers from 1 to {MAX_TOKENS}"
        )
    return value


def _check_limits(kind: str, low: int, high: int, names: tuple[str, str] = ("min", "max")) -> None:
    if low < 1:
        field = "value" if kind == "fixed" else names[0]
        raise UsageError(f"lengths {kind}: {field} is {low}; a length is at least 1 token")
    if high < low:
        raise UsageError(f"lengths {kind}: {names[1]} {high} lies below {names[0]} {low}")
    if high > _MOST:
        raise UsageError(f"lengths {kind}: {high} is more than {_MOST} tokens, the longest that an engine can count")


def _check_scale(kind: str, field: str, value: float) -> None:
    if not value >= 0:
        raise UsageError(f"lengths {kind}: {field} is {value}; it must not be negative")
