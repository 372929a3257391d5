"""The clock corridor: planted offsets and drifts are found within the error that it states."""

import numpy as np
import pytest
from stepscope.instrumentation.device_clock import ClockCorridor

BASE_NS = 2**60
SECOND_NS = 1_000_000_000


Truth = list[tuple[int, int]]


def planted(
    drift_ppm: float, *, seed: int, seconds: float = 12, skew_ns: int = 0, per_second: int = 250
) -> tuple[ClockCorridor, Truth]:
    """A corridor and its truth [(device, host)]: launches 2-200 us early, a third with a wait 5-50 us late."""
    rng = np.random.default_rng(seed)
    corridor, truth = ClockCorridor(), []
    for device_ns in map(int, np.sort(rng.integers(0, int(seconds * SECOND_NS), int(per_second * seconds)))):
        host_ns = BASE_NS + device_ns + round(drift_ppm * 1e-6 * device_ns)
        corridor.not_before(device_ns, host_ns - int(rng.integers(2_000, 200_000)) + skew_ns)
        if rng.random() < 0.3:
            corridor.not_after(device_ns, host_ns + int(rng.integers(5_000, 50_000)))
        truth.append((device_ns, host_ns))
    corridor.fit()
    return corridor, truth


@pytest.mark.parametrize("drift_ppm", [0.0, -2.7, 40.0])
def test_truth_lies_within_the_stated_error(drift_ppm: float) -> None:
    corridor, truth = planted(drift_ppm, seed=1)
    for device_ns, host_ns in truth:
        found = corridor.to_host(device_ns)
        assert found is not None
        assert abs(found[0] - host_ns) <= found[1] <= 12_000


def test_no_constraint_is_violated_and_constraints_are_counted() -> None:
    corridor, truth = planted(-2.7, seed=2)
    assert corridor.violations() == 0
    assert corridor.constraints[0] == len(truth)


def test_a_constant_offset_breaks_constraints_where_the_clocks_drift() -> None:
    """GIVEN a drift of 2.7 ppm over 12 s, 32 us against a corridor of some 10 THEN no constant offset keeps it."""
    corridor, _ = planted(-2.7, seed=1)
    broken, worst_ns = corridor.violations_without_drift()
    assert corridor.violations() == 0
    assert broken > 0
    assert 5_000 < worst_ns < 32_400 / 2
    assert planted(0.0, seed=1)[0].violations_without_drift() == (0, 0)


@pytest.mark.parametrize("seconds", [0.2, 1, 2.5])
@pytest.mark.parametrize("drift_ppm", [-2.7, 300.0])
def test_a_short_run_says_less_and_says_so(drift_ppm: float, seconds: float) -> None:
    """GIVEN too little time to see the drift THEN the error is larger, and the truth is still inside."""
    corridor, truth = planted(drift_ppm, seed=5, seconds=seconds, per_second=1_000)
    found = [corridor.to_host(device_ns) for device_ns, _ in truth]
    assert max(err for _, err in found) < 45_000
    assert all(abs(known[0] - host_ns) <= known[1] for known, (_, host_ns) in zip(found, truth, strict=True))


def test_the_stated_error_is_what_the_constraints_leave_open() -> None:
    """GIVEN four constraints, all at two times THEN error and middle are theirs, and between them linear."""
    corridor = ClockCorridor(window_ns=1_000_000)
    for device_ns, low, high in ((0, 100, 120), (999_999, 150, 190)):
        corridor.not_before(device_ns, BASE_NS + device_ns + low)
        corridor.not_after(device_ns, BASE_NS + device_ns + high)
    corridor.fit()
    assert corridor.to_host(0) == (BASE_NS + 110, 10)
    assert corridor.to_host(999_999) == (BASE_NS + 999_999 + 170, 20)
    assert corridor.to_host(500_000) == (BASE_NS + 500_000 + 140, 16)  # rounded up


def test_an_empty_corridor_is_a_clock_fault() -> None:
    """GIVEN lower bounds that lie 300 us above every upper bound THEN nothing is known, and nothing is guessed."""
    corridor, truth = planted(0.0, seed=3, skew_ns=300_000)
    assert corridor.to_host(truth[100][0]) is None


def test_one_sided_constraints_give_nothing() -> None:
    corridor = ClockCorridor()
    corridor.not_before(0, BASE_NS)
    corridor.fit()
    assert corridor.to_host(0) is None


def test_a_fitted_window_keeps_its_segment() -> None:
    corridor, truth = planted(0.0, seed=4, seconds=6)
    before = corridor.to_host(truth[10][0])
    corridor.not_after(truth[10][0], BASE_NS + truth[10][0])
    corridor.fit(since=1)
    assert corridor.to_host(truth[10][0]) == before
