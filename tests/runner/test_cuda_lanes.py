"""Lanes, stamps and marks in C against those in Python, on a driver's function that is a callback: no GPU."""

import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from collections import deque

import pytest
import torch
from stepscope.experiments.between_steps import ROWS_EVERY_STEPS
from stepscope.runner.devices import cuda, cuda_events, cuda_marks, cuda_native
from stepscope.runner.devices.cuda_lanes import PythonLane, StampLane

from .lane_fakes import DEVICE, EVENTS, RECORD, Clock, Event, Stream, choose, make_device, make_driver, needs_compiler

FORMS = ["python", pytest.param("torch", marks=needs_compiler), pytest.param("driver", marks=needs_compiler)]


@pytest.fixture
def driver(monkeypatch):
    return make_driver(monkeypatch)


@pytest.fixture(params=FORMS)
def line(request, monkeypatch, driver):
    choose(monkeypatch, request.param, driver)
    line = cuda_events.EventTimeline(DEVICE, Event, worker=False)
    line.start(Stream())
    return line


@pytest.mark.parametrize("form", FORMS)
def test_the_form_is_the_one_that_was_chosen(monkeypatch, driver, form):
    choose(monkeypatch, form, driver)
    device, _ = make_device(monkeypatch)
    lane = device._lanes["compute"]
    assert (type(lane) is PythonLane) is (form == "python")
    assert isinstance(lane, StampLane)
    assert (type(device._marks) is cuda_marks.Marks) is (form == "python")
    # AND what is replaced in the class is replaced in every form
    monkeypatch.setattr(StampLane, "has_kernels", property(lambda self: "planted"))
    assert lane.has_kernels == "planted"


def test_short_waits_read_nothing_between_two_hand_overs_of_the_rows(monkeypatch, driver):
    # GIVEN host-bound steps of 12 stamps, each with a wait of a few us
    device, _ = make_device(monkeypatch, cuda_events.BACKLOG)
    waiting = device._lanes["compute"].waiting

    def step():
        for _ in range(11):
            device.record("compute")
        device.host_wait(device.record("compute"), "tokens")

    for _ in range(ROWS_EVERY_STEPS):
        step()
    assert len(waiting) == 12 * ROWS_EVERY_STEPS
    # AND where nobody hands over, a portion is read
    step()
    assert len(waiting) == 12 * ROWS_EVERY_STEPS + 12 - cuda.PORTION
    device._idle.catch_up()
    assert len(waiting) == 0


def test_what_c_records_was_made_before_the_first_step_and_a_dry_pool_makes_more(line):
    assert len(EVENTS) == (1 if isinstance(line.pool, deque) else 9)  # with the anchor
    lane = line.lane(Stream())
    stamps = [lane.record(number) for number in range(12)]
    assert len({id(stamp.event) for stamp in stamps}) == 12
    assert len(line.pool) == 0


@needs_compiler
class TestDriver:
    @pytest.fixture
    def lane(self, monkeypatch, driver):
        choose(monkeypatch, "driver", driver)
        line = cuda_events.EventTimeline(DEVICE, Event, worker=False)
        line.start(Stream())
        return line.lane(Stream())

    def test_it_records_what_torch_has_made_and_torch_what_is_fresh(self, lane, driver):
        events = [lane.record(number).event for number in range(10)]
        assert [(event.by_torch, event.by_driver) for event in events] == [(1, 1)] * 8 + [(1, 0)] * 2
        # AND those two by the driver when they come again
        Clock.time = 10**6
        lane.timeline.resolve(Clock.time)
        for number in range(10):
            lane.record(number)
        assert {(event.by_torch, event.by_driver) for event in events} == {(1, 2), (1, 1)}

    def test_what_it_refuses_torch_is_asked_for(self, lane, driver):
        driver.error = 201  # no context: a thread that never touched the device
        stamp = lane.record(5)
        assert (driver.calls, stamp.event.by_torch, stamp.recorded_ns, stamp.number) == (1, 2, 5, 1)

    @pytest.mark.parametrize("way", ["record", "record_untimed"])
    def test_torchs_error_is_raised_and_the_lane_goes_on(self, lane, driver, way):
        driver.error = 700
        event, free = lane.timeline.pool[-1], len(lane.timeline.pool)

        def record(stream):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        event.record = record
        with pytest.raises(RuntimeError, match="illegal memory access"):
            getattr(lane, way)(*[5] if way == "record" else [])
        assert (len(lane.timeline.pool), lane.border, len(lane.waiting)) == (free - 1, None, 0)
        driver.error = 0
        assert lane.record(6) is lane.waiting[0] is lane.border is lane.last
        assert sys.getrefcount(event) == 3  # this test's, the call's, and that of the handles' table

    def test_a_stream_or_an_event_without_a_handle_is_torchs(self, lane, driver):
        default = Stream()
        default.cuda_stream = 0
        lane.timeline.lane(default).record(1)
        lane.timeline.lane(type("Bare", (), {"device": DEVICE, "busy_until": 0})()).record(1)
        assert driver.calls == 0

    def test_an_untimed_stamp_gives_its_event_back_while_an_exception_is_on_its_way(self, lane):
        pool = lane.timeline.pool
        free = len(pool)

        def fails():
            raise ValueError(len(pool))

        with pytest.raises(ValueError, match=str(free - 1)):
            (lane.record_untimed(), fails())
        assert len(pool) == free

    def test_100_000_records_leave_nothing_behind(self, lane, driver, monkeypatch):
        # GIVEN a lane whose stamps are read as they come, and a driver's function that does nothing
        nothing = RECORD(lambda event, stream: 0)
        monkeypatch.setattr(cuda_native, "driver_record", lambda: ctypes.cast(nothing, ctypes.c_void_p).value)
        line = cuda_events.EventTimeline(DEVICE, Event, worker=False)
        line.start(Stream())
        lane, pool, waiting = line.lane(Stream()), line.pool, deque()

        def records(count):
            for _ in range(count):
                lane.record(2**60)
                stamp = lane.waiting.popleft()
                stamp.returned_ns = stamp.device_ns = 2**60
                pool.append(stamp.event)
                waiting.append(lane.record_untimed())
                waiting.clear()

        records(1_000)
        gc.collect()
        event = pool[-1]
        before = sys.getallocatedblocks(), sys.getrefcount(event), sys.getrefcount(lane.engine)
        records(50_000)
        gc.collect()
        after = sys.getallocatedblocks(), sys.getrefcount(event), sys.getrefcount(lane.engine)
        assert after[1:] == before[1:]
        assert after[0] - before[0] < 100  # others may have freed some of theirs

    def test_another_thread_reads_while_stamps_are_recorded(self, lane):
        # GIVEN a worker that takes every stamp there is and gives its event back
        line, done, lost = lane.timeline, threading.Event(), []

        def read():
            while not done.is_set() or lane.waiting:
                if lane.waiting:
                    stamp = lane.waiting.popleft()
                    lost.append(stamp.number)
                    line.pool.append(stamp.event)

        worker = threading.Thread(target=read)
        worker.start()
        for number in range(5_000):
            lane.record(number)
        done.set()
        worker.join()
        assert lost == list(range(1, 5_001))
        held = [line.pool.pop() for _ in range(len(line.pool))]
        assert len({id(event) for event in held}) == len(held) == len(EVENTS) - 1


@needs_compiler
def test_stamps_outlive_their_timeline_which_is_collected(monkeypatch, driver):
    choose(monkeypatch, "driver", driver)
    line = cuda_events.EventTimeline(DEVICE, Event, worker=False)
    line.start(Stream())
    lane = line.lane(Stream())
    stamp, untimed, gone = lane.record(1), lane.record_untimed(), weakref.ref(line)
    del line, lane
    gc.collect()
    assert gone() is None
    assert stamp.event.by_driver == untimed.event.by_driver == 1
    event = untimed.event
    del untimed
    gc.collect()
    assert sys.getrefcount(event) == 3


@needs_compiler
def test_the_drivers_function_is_taken_where_torch_is_nvidias(monkeypatch, tmp_path):
    library = tmp_path / "libcuda.so"
    source = "int cuEventRecord(void *event, void *stream) { return 100; }"
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(library)], input=source.encode(), check=True)
    monkeypatch.setattr(cuda_native, "LIBRARY", str(library))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    address = cuda_native.driver_record.__wrapped__()
    assert RECORD(address)(None, None) == 100
    # BUT neither where torch's events are others, nor without the library
    monkeypatch.setattr(torch.version, "cuda", None)
    assert cuda_native.driver_record.__wrapped__() == 0
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cuda_native, "LIBRARY", "libno-such-driver.so.1")
    assert cuda_native.driver_record.__wrapped__() == 0
