"""Host clocks of the sim device, on a fake source of real time."""

import pytest
from stepscope.runner.devices.sim_clock import DeclaredClock, MeasuredSimClock


class RealTime:
    def __init__(self):
        self.now = 1000

    def __call__(self):
        return self.now


@pytest.fixture
def real():
    return RealTime()


def test_measured_time_runs_but_not_while_paused(real):
    clock = MeasuredSimClock(real)
    real.now += 10
    with clock:
        real.now += 500
        assert clock.now_ns() == 1010
    real.now += 5
    assert clock.now_ns() == 1015


def test_pauses_nest_and_end_with_the_outermost_even_when_an_exception_passes(real):
    clock = MeasuredSimClock(real)

    def fail():
        with clock:
            with clock:
                real.now += 100
            real.now += 100
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert clock.now_ns() == 1000
    real.now += 3
    assert clock.now_ns() == 1003


def test_charges_count_paused_or_not_and_jumps_go_forward_only(real):
    clock = MeasuredSimClock(real)
    clock.advance(7)
    with clock:
        real.now += 100
        clock.advance(3)
    assert clock.now_ns() == 1010
    clock.jump_to(1005)
    assert clock.now_ns() == 1010
    clock.jump_to(2000)
    real.now += 1
    assert clock.now_ns() == 2001
    assert clock.leave("anything") == 2001


def test_declared_time_moves_by_declared_costs_and_charges_only():
    clock = DeclaredClock({"build_indices": 40}, start_ns=2**60 + 1)
    assert clock.leave("build_indices") == 2**60 + 41
    assert clock.leave("something_else") == 2**60 + 41
    with clock:
        assert clock.leave("build_indices") == 2**60 + 41
        clock.advance(2)
    clock.jump_to(0)
    assert clock.now_ns() == 2**60 + 43
