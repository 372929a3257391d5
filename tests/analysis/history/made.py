"""Series of hand: levels, noise, and results with what a test wants of them."""

from __future__ import annotations

import numpy as np
from stepscope.analysis.gate.history import Result
from stepscope.analysis.history.series import Series, Stored, machine_of

H200 = {"gpu": "NVIDIA H200", "driver": "580.1", "torch": "2.11.0"}


def stored(value, number=0, *, commit=True, machine=None, metric="period_p50_ns", point="decode", time=None):
    result = Result(H200 if machine is None else machine, {(point, metric): value}, {})
    return Stored(result, f"r{number}", f"c{number}" if commit else None, time)


def series(values, metric="period_p50_ns", **changed):
    results = tuple(stored(value, number, metric=metric, **changed) for number, value in enumerate(values))
    return Series("decode", metric, machine_of(H200), results, tuple(values))


def noisy(levels, sd=0.01, seed=0):
    """Values around `levels` with log-normal noise."""
    rng = np.random.default_rng(seed)
    return [float(level * np.exp(sd * rng.standard_normal())) for level in levels]


def step(before=20, after=10, effect=0.05, sd=0.01, seed=0, level=1e7):
    return noisy([level] * before + [level * (1 + effect)] * after, sd, seed)
