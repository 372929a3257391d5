"""From usable rows to a replay: order, offsets, speed, jitter, repeats; every change of the trace is said."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ..requests import PrefixHashes, Request
from ..seeds import generator
from .formats import TraceFormat
from .rows import RowSieve, TraceRow

_INT64 = npt.NDArray[np.int64]
_MIN_SPEED, _MAX_SPEED = 0.001, 1_000_000
MAX_OFFSET_NS = 1 << 62
"""Arrivals are int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a trace is played.

    speed      arrivals are divided by it: 8.0 is eight times the load
    jitter_ns  each arrival is moved later by a uniform draw from [0, jitter_ns): a trace whose times are ticks
               (Mooncake conversation: 3 s) would otherwise send bursts that nobody sent
    repeat     play the trace again, one mean gap after its end, when more requests are asked for than it has
    seed       of the jitter
    """

    speed: float = 1.0
    jitter_ns: int = 0
    repeat: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not _MIN_SPEED <= self.speed <= _MAX_SPEED:
            raise UsageError(f"trace: speed is {self.speed}; it must lie between {_MIN_SPEED} and {_MAX_SPEED}")
        if self.jitter_ns < 0:
            raise UsageError(f"trace: jitter_ns is {self.jitter_ns}; it must not be negative")


@dataclass(frozen=True, slots=True)
class TraceResult:
    """Columns of a replay, sorted by arrival.

    arrival_ns, prompt_len, output_len   int64 [n]; arrivals are offsets, the first is 0
    hash_ids                             per request, empty where the trace has none; blocks of `hash_block` tokens
    skipped                              rows left out, by reason; `warnings` what else the reader should know
    source                               where such traces come from and their licence: stands beside every figure
    """

    format: str
    source: str
    arrival_ns: _INT64
    prompt_len: _INT64
    output_len: _INT64
    hash_ids: tuple[tuple[int, ...], ...]
    hash_block: int
    skipped: dict[str, int]
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def requests(self, *, vocab_size: int, seed: int = 0) -> tuple[Request, ...]:
        """The replay as requests `t0`, `t1`, ... in order of arrival."""
        return tuple(
            Request(
                f"t{index}",
                int(self.prompt_len[index]),
                int(self.output_len[index]),
                vocab_size,
                int(self.arrival_ns[index]),
                seed,
                prefix=PrefixHashes(self.hash_block, self.hash_ids[index]) if self.hash_ids[index] else None,
            )
            for index in range(len(self))
        )


def replay(path: Path, fmt: TraceFormat, sieve: RowSieve, limit: int | None, options: ReplayOptions) -> TraceResult:
    """Order, cut or repeat, scale and jitter the rows that `sieve` kept."""
    rows = sorted(sieve.rows, key=lambda row: row.time_ns)
    if not rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sieve.skipped.items()) or "no rows"
        raise UsageError(f"trace {path}: nothing usable in it ({reasons})")
    warnings = _warnings(fmt, sieve)
    chosen, offsets = _cut_or_repeat(path, rows, limit, options.repeat, warnings)
    if float(offsets[-1]) / options.speed + options.jitter_ns >= MAX_OFFSET_NS:
        raise UsageError(
            f"trace {path}: at speed {options.speed} it lasts longer than 146 years; raise speed, or lower the limit"
        )
    arrivals = _scaled(offsets, options.speed)
    order = np.arange(len(arrivals))
    if options.jitter_ns:
        arrivals = arrivals + generator(options.seed, "trace-jitter").integers(0, options.jitter_ns, len(arrivals))
        order = np.argsort(arrivals, kind="stable")
        arrivals = arrivals[order] - arrivals.min()
        warnings.append(f"arrivals jittered by a uniform draw from [0, {options.jitter_ns}) ns")
    kept = [chosen[index] for index in order]
    return TraceResult(
        fmt.name,
        fmt.source,
        arrivals,
        np.array([row.prompt_len for row in kept], dtype=np.int64),
        np.array([row.output_len for row in kept], dtype=np.int64),
        tuple(row.hash_ids for row in kept),
        fmt.columns.hash_block,
        dict(sieve.skipped),
        tuple(warnings),
    )


def _warnings(fmt: TraceFormat, sieve: RowSieve) -> list[str]:
    warnings = []
    if sieve.total_mismatches:
        count, first = len(sieve.total_mismatches), sieve.total_mismatches[0]
        warnings.append(f"rows kept although their total is not prompt + output: {count}, the first in line {first}")
    if not fmt.arrivals:
        warnings.append("lengths only, no arrivals: all requests arrive at once")
    return warnings


def _cut_or_repeat(
    path: Path, rows: list[TraceRow], limit: int | None, repeat: bool, warnings: list[str]
) -> tuple[list[TraceRow], _INT64]:
    times = np.array([row.time_ns - rows[0].time_ns for row in rows], dtype=np.int64)
    count = len(rows) if limit is None else limit
    if count < 1:
        raise UsageError(f"trace {path}: limit is {count}; ask for at least 1 request")
    if count <= len(rows):
        return rows[:count], times[:count]
    if not repeat:
        raise UsageError(
            f"trace {path}: {count} requests asked for, it has {len(rows)} usable ones; "
            f"lower the limit or set repeat: true"
        )
    rounds = -(-count // len(rows))
    warnings.append(f"{len(rows)} usable rows played {rounds} times to give {count} requests")
    period = int(times[-1]) + int(times[-1]) // max(len(rows) - 1, 1)
    if period * rounds >= MAX_OFFSET_NS:
        raise UsageError(f"trace {path}: played {rounds} times it lasts longer than 146 years; lower the limit")
    starts = np.repeat(np.arange(rounds, dtype=np.int64) * period, len(rows))
    return (rows * rounds)[:count], (np.tile(times, rounds) + starts)[:count]


def _scaled(offsets: _INT64, speed: float) -> _INT64:
    """offsets / speed in integers, rounded down; in two parts, so that no product leaves int64."""
    ratio = Fraction(str(speed)).limit_denominator(_MAX_SPEED)
    whole, rest = np.divmod(offsets, ratio.numerator)
    scaled: _INT64 = whole * ratio.denominator + rest * ratio.denominator // ratio.numerator
    return scaled
