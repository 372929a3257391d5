"""When requests arrive: offsets from the first one, in nanoseconds."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import UsageError

Offsets = npt.NDArray[np.int64]
_NS = 1e9
_MOST_S = float(1 << 62) / _NS
_MOST_RATE = 1e12


class _Config(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base: written in a spec as `{kind: <name>, ...}`. Rates are requests per second; the first arrives at 0."""


class AllAtOnce(_Config, frozen=True, kw_only=True, tag="all_at_once"):
    """Everything is there at the start: the scheduler alone sets the pace."""

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """Arrivals of `count` requests, int64 [count], ascending."""
        return np.zeros(count, dtype=np.int64)


class Constant(_Config, frozen=True, kw_only=True, tag="constant"):
    """One every 1 / rate seconds."""

    rate: float

    def __post_init__(self) -> None:
        _check_positive("constant", "rate", self.rate)

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """Arrivals of `count` requests, int64 [count], ascending."""
        return _to_ns(np.arange(count) / self.rate)


class Poisson(_Config, frozen=True, kw_only=True, tag="poisson"):
    """Exponential gaps, neither cut nor rescaled: the realised rate varies from seed to seed, as load does."""

    rate: float

    def __post_init__(self) -> None:
        _check_positive("poisson", "rate", self.rate)

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """Arrivals of `count` requests, int64 [count], ascending."""
        return _accumulate(rng.exponential(1.0 / self.rate, size=max(count - 1, 0)), count)


class Gamma(_Config, frozen=True, kw_only=True, tag="gamma"):
    """Gamma gaps of coefficient of variation `cv`: 1 is Poisson, Azure's code trace has 13.

    shape = 1 / cv**2, scale = cv**2 / rate. vLLM's burstiness is 1 / cv**2.
    """

    rate: float
    cv: float

    def __post_init__(self) -> None:
        _check_positive("gamma", "rate", self.rate)
        if not 1e-6 <= self.cv <= 1e6:
            raise UsageError(f"arrivals gamma: cv is {self.cv}; it must lie between 1e-6 and 1e6")

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """Arrivals of `count` requests, int64 [count], ascending."""
        variance = self.cv * self.cv
        return _accumulate(rng.gamma(1.0 / variance, variance / self.rate, size=max(count - 1, 0)), count)


class ClosedLoop(_Config, frozen=True, kw_only=True, tag="closed_loop"):
    """`concurrency` users: each sends its next request when the one before is answered. No arrival times."""

    concurrency: int

    def __post_init__(self) -> None:
        _check_positive("closed_loop", "concurrency", self.concurrency)

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """All zero: a request enters when fewer than `concurrency` are unfinished."""
        return np.zeros(count, dtype=np.int64)


class Ramp(_Config, frozen=True, kw_only=True, tag="ramp"):
    """A Poisson process whose rate goes linearly from `start_rate` to `end_rate` in `duration_s`, then stays."""

    start_rate: float
    end_rate: float
    duration_s: float

    def __post_init__(self) -> None:
        if not self.start_rate >= 0:
            raise UsageError(f"arrivals ramp: start_rate is {self.start_rate}; it must not be negative")
        _check_most("ramp", "start_rate", self.start_rate)
        _check_positive("ramp", "end_rate", self.end_rate)
        _check_positive("ramp", "duration_s", self.duration_s)

    def offsets_ns(self, count: int, rng: np.random.Generator) -> Offsets:
        """Arrivals of `count` requests, int64 [count], ascending.

        Time change of a unit-rate process: its k-th event E_k falls where the integral of the rate,
        start*t + slope*t**2/2, reaches E_k.
        """
        events = np.concatenate(([0.0], np.cumsum(rng.exponential(1.0, size=max(count - 1, 0)))))[:count]
        slope = (self.end_rate - self.start_rate) / self.duration_s
        at_end = 0.5 * (self.start_rate + self.end_rate) * self.duration_s
        inside = np.minimum(events, at_end)
        # 2E / (s + sqrt(s*s + 2*slope*E)) is the root that stays exact for slope -> 0
        root = np.sqrt(np.maximum(self.start_rate**2 + 2.0 * slope * inside, 0.0))
        denominator = np.maximum(self.start_rate + root, np.finfo(np.float64).tiny)
        seconds = 2.0 * inside / denominator + (events - inside) / self.end_rate
        return _to_ns(seconds)


ArrivalConfig: TypeAlias = AllAtOnce | Constant | Poisson | Gamma | ClosedLoop | Ramp


def concurrency_of(arrivals: ArrivalConfig) -> int | None:
    """The limit on unfinished requests that a closed loop sets, else None."""
    return arrivals.concurrency if isinstance(arrivals, ClosedLoop) else None


def _accumulate(gaps_s: npt.NDArray[np.float64], count: int) -> Offsets:
    """Rounded after summing, so that rounding does not add up."""
    seconds = np.zeros(count)
    with np.errstate(over="ignore"):
        seconds[1:] = np.cumsum(gaps_s)
    return _to_ns(seconds)


def _to_ns(seconds: npt.NDArray[np.float64]) -> Offsets:
    """Whole ns. Raises UsageError for times that int64 does not hold, or that are no times."""
    if seconds.size and not seconds.max() < _MOST_S:
        raise UsageError("arrivals: the last comes more than 146 years after the first; raise the rate or lower the cv")
    return np.rint(seconds * _NS).astype(np.int64)


def _check_positive(kind: str, field: str, value: float) -> None:
    if not value > 0:
        raise UsageError(f"arrivals {kind}: {field} is {value}; it must be above 0")
    _check_most(kind, field, value)


def _check_most(kind: str, field: str, value: float) -> None:
    if value > _MOST_RATE:
        raise UsageError(f"arrivals {kind}: {field} is {value}; it must not be above {_MOST_RATE:g}")
