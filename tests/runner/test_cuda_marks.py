"""Marks of the cuda device on a lane whose stamps are numbers: no GPU is needed."""

from types import SimpleNamespace

import pytest
from stepscope.runner.devices.cuda_marks import Marks


class Lane:
    """Stamps are the times at which they were recorded."""

    border = None

    def __init__(self):
        self.recorded = []

    def record(self, now_ns):
        self.border = SimpleNamespace(time=now_ns, recorded_ns=now_ns)
        self.recorded.append(now_ns)
        return self.border


class Rows:
    """Stamps fire `latency` after they were recorded, known to 7 ns, once `final`."""

    latency, final, fault = 100, True, False

    def host_time(self, stamp):
        return (stamp.time + self.latency, 7) if self.final and not self.fault else None


@pytest.fixture
def bench():
    clock = SimpleNamespace(time=0)
    clock.now_ns = lambda: clock.time
    lane, rows = Lane(), Rows()
    return SimpleNamespace(clock=clock, lane=lane, rows=rows, marks=Marks(lane, rows, clock))


def test_neighbours_share_a_stamp_until_something_is_enqueued(bench):
    first = bench.marks.take()
    bench.clock.time = 50
    second = bench.marks.take()
    bench.lane.border = None  # an operation was enqueued
    bench.clock.time = 60
    third = bench.marks.take()
    assert bench.lane.recorded == [0, 60]
    assert [bench.marks.resolve(mark, 0) for mark in (first, second, third)] == [(100, 7), (100, 7), (160, 7)]


def test_an_idle_stream_does_not_move_a_mark_before_its_call(bench):
    mark = bench.marks.take()
    assert bench.marks.take() is mark  # it fired at 100
    assert bench.marks.resolve(mark, 5_000) == (5_000, 7)


def test_no_time_before_the_corridor_is_fitted_nor_on_a_clock_fault(bench):
    mark = bench.marks.take()
    bench.rows.final = False
    assert bench.marks.resolve(mark, 0) is None
    bench.rows.final, bench.rows.fault = True, True
    assert bench.marks.resolve(mark, 0) is None
    bench.rows.fault = False
    assert bench.marks.resolve(mark, 0) == (100, 7)


def test_work_aside_that_nobody_joined_leaves_no_mark_and_is_named(bench):
    bench.marks.aside.add("copy")
    assert bench.marks.take() is None
    assert bench.marks.unjoined == {"copy"}
    assert bench.marks.take() is not None, "the next one has nothing in its way"
    bench.marks.aside.add("output")
    bench.marks.aside.discard("output")
    assert bench.marks.take() is not None
    assert bench.marks.unjoined == {"copy"}
