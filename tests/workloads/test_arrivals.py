from __future__ import annotations

import msgspec
import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.workloads.arrivals import ArrivalConfig, ClosedLoop, Constant, Gamma, Poisson, Ramp, concurrency_of
from stepscope.workloads.seeds import generator

COUNT = 20_000
S = 1_000_000_000


def offsets(config: ArrivalConfig, count: int = COUNT) -> np.ndarray:
    return config.offsets_ns(count, generator(0, "arrivals"))


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "all_at_once"},
        {"kind": "constant", "rate": 3.0},
        {"kind": "poisson", "rate": 3.0},
        {"kind": "gamma", "rate": 3.0, "cv": 13.0},
        {"kind": "closed_loop", "concurrency": 4},
        {"kind": "ramp", "start_rate": 0.0, "end_rate": 9.0, "duration_s": 60.0},
        {"kind": "ramp", "start_rate": 9.0, "end_rate": 1.0, "duration_s": 60.0},
    ],
    ids=["all", "constant", "poisson", "gamma", "closed", "up", "down"],
)
def test_offsets_are_integers_that_start_at_0_and_ascend(spec: dict) -> None:
    config = msgspec.convert(spec, ArrivalConfig)
    times = offsets(config)
    assert (times.dtype, len(times), times[0]) == (np.int64, COUNT, 0)
    assert (np.diff(times) >= 0).all()
    assert np.array_equal(times, offsets(config))
    assert offsets(config, 1).tolist() == [0]
    assert offsets(config, 0).tolist() == []


def test_constant_does_not_drift() -> None:
    assert offsets(Constant(rate=3.0), 7).tolist() == [0, 333333333, 666666667, S, 1333333333, 1666666667, 2 * S]


@pytest.mark.parametrize(
    ("config", "cv"), [(Poisson(rate=5.0), 1.0), (Gamma(rate=5.0, cv=1.0), 1.0), (Gamma(rate=5.0, cv=3.0), 3.0)]
)
def test_gaps_have_the_rate_and_the_coefficient_of_variation(config: ArrivalConfig, cv: float) -> None:
    gaps = np.diff(offsets(config)) / S
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_poisson_gaps_are_not_cut() -> None:
    gaps = np.diff(offsets(Poisson(rate=1.0))) / S
    assert gaps.max() > 3.0 * gaps.mean()
    assert (gaps > 3.0).mean() == pytest.approx(np.exp(-3), rel=0.1)


def test_a_ramp_has_the_integral_of_its_rate_and_then_its_end_rate() -> None:
    # GIVEN 10 -> 110 per second within 100 s: 6,000 arrivals, the first half of the time has 1,750
    times = offsets(Ramp(start_rate=10.0, end_rate=110.0, duration_s=100.0)) / S
    assert np.searchsorted(times, 50.0) == pytest.approx(1750, rel=0.05)
    assert np.searchsorted(times, 100.0) == pytest.approx(6000, rel=0.03)
    assert np.diff(times[times > 100.0]).mean() == pytest.approx(1 / 110, rel=0.03)


def test_a_flat_ramp_is_poisson() -> None:
    flat = offsets(Ramp(start_rate=5.0, end_rate=5.0, duration_s=10.0))
    assert np.abs(flat - offsets(Poisson(rate=5.0))).max() <= 1000


def test_a_ramp_from_0_begins_slowly() -> None:
    times = offsets(Ramp(start_rate=0.0, end_rate=10.0, duration_s=10.0), 200) / S
    assert np.searchsorted(times, 10.0) == pytest.approx(50, abs=20)
    assert np.isfinite(times).all()


def test_only_a_closed_loop_limits_concurrency() -> None:
    assert concurrency_of(ClosedLoop(concurrency=4)) == 4
    assert concurrency_of(Poisson(rate=1.0)) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": "constant", "rate": 0.0}, "constant: rate is 0"),
        ({"kind": "poisson", "rate": float("nan")}, "poisson: rate is nan"),
        ({"kind": "gamma", "rate": 1.0, "cv": 0.0}, "gamma: cv is 0"),
        ({"kind": "closed_loop", "concurrency": 0}, "closed_loop: concurrency is 0"),
        ({"kind": "ramp", "start_rate": -1.0, "end_rate": 1.0, "duration_s": 1.0}, "ramp: start_rate is -1"),
        ({"kind": "ramp", "start_rate": 1.0, "end_rate": 0.0, "duration_s": 1.0}, "ramp: end_rate is 0"),
        ({"kind": "ramp", "start_rate": 1e308, "end_rate": 1.0, "duration_s": 1.0}, "ramp: start_rate is 1e\\+308"),
        ({"kind": "constant", "rate": float("inf")}, "constant: rate is inf"),
        ({"kind": "gamma", "rate": 1.0, "cv": 1e-300}, "gamma: cv is 1e-300"),
        ({"kind": "gamma", "rate": 1.0, "cv": 1e300}, "gamma: cv is 1e\\+300"),
    ],
)
def test_unfit_settings_are_refused(spec: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        msgspec.convert(spec, ArrivalConfig)


@pytest.mark.parametrize(
    "arrivals",
    [
        Constant(rate=1e-12),
        Poisson(rate=5e-324),
        Gamma(rate=1e-300, cv=1e6),
        Ramp(start_rate=0.0, end_rate=1e-300, duration_s=1.0),
    ],
)
def test_arrivals_after_the_end_of_all_clocks_are_refused(arrivals: ArrivalConfig) -> None:
    with pytest.raises(UsageError, match="more than 146 years after the first; raise the rate"):
        offsets(arrivals, 1000)
