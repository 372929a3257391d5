"""Lanes, stamps and marks in C against those in Python, on a driver's function that is a callback: no GPU."""

import ctypes
import gc
import random
import sys
import threading
import weakref
from collections import deque
from contextlib import nullcontext

import pytest
import torch
from stepscope.experiments.between_steps import ROWS_EVERY_STEPS
from stepscope.instrumentation.probe import Ledger
from stepscope.instrumentation.probe.native import native
from stepscope.runner.devices import cuda, cuda_events, cuda_marks, cuda_native, cuda_tensors
from stepscope.runner.devices.base import Work
from stepscope.runner.devices.cuda_lanes import PythonLane, StampLane
from stepscope.runner.devices.cuda_rows import CopyCorrection

needs_compiler = pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
FORMS = ["python", pytest.param("torch", marks=needs_compiler), pytest.param("driver", marks=needs_compiler)]
DEVICE = torch.device("cuda", 0)
EVENTS, STREAMS = {}, {}
"""By handle."""
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Clock:
    """Moves by a microsecond whenever it is read."""

    time = 0

    def now_ns(self):
        Clock.time += 1_000
        return Clock.time


class Stream:
    """Its work ends when the clock says so."""

    device = DEVICE

    def __init__(self):
        self.busy_until, self.cuda_stream = 0, 7_000 + len(STREAMS)
        STREAMS[self.cuda_stream] = self

    def query(self):
        return Clock.time >= self.busy_until

    def wait_event(self, event):
        self.busy_until = max(self.busy_until, event.time)


class Event:
    """Has a handle once it was recorded, as torch's; counts who recorded it."""

    def __init__(self, enable_timing):
        self.time, self.handle, self.by_torch, self.by_driver = None, 0, 0, 0

    @property
    def cuda_event(self):
        return self.handle

    def record(self, stream):
        self.by_torch += 1
        if not self.handle:
            self.handle = 1 + len(EVENTS)
            EVENTS[self.handle] = self
        self.fire_behind(stream)

    def fire_behind(self, stream):
        self.time = max(stream.busy_until, Clock.time + 500)

    def query(self):
        return Clock.time >= self.time

    def synchronize(self):
        Clock.time = max(Clock.time, self.time)

    def elapsed_time(self, other):
        return (other.time - self.time) / 1e6


class Driver:
    """cuEventRecord. `error`: what it returns instead of recording."""

    def __init__(self):
        self.calls, self.error = 0, 0
        self.function = RECORD(self.record)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def record(self, event, stream):
        self.calls += 1
        if not self.error:
            EVENTS[event].by_driver += 1
            EVENTS[event].fire_behind(STREAMS[stream])
        return self.error


@pytest.fixture
def driver(monkeypatch):
    """A small pool, and clocks from 0."""
    for known in (EVENTS, STREAMS):
        known.clear()
    Clock.time = 0
    monkeypatch.setattr(cuda_events, "POOL_SIZE", 8)
    return Driver()


def choose(monkeypatch, form, driver):
    address = driver.address if form == "driver" else 0
    monkeypatch.setattr(cuda_native, "driver_record", lambda: address)
    for module in (cuda_native, cuda_marks):
        monkeypatch.setattr(module, "native_events", (lambda: None) if form == "python" else native)


@pytest.fixture(params=FORMS)
def line(request, monkeypatch, driver):
    choose(monkeypatch, request.param, driver)
    line = cuda_events.EventTimeline(DEVICE, Event, worker=False)
    line.start(Stream())
    return line


class Memory:
    pinned, reason = True, ""

    def kind(self, tensor):
        return "pinned"


class Primer:
    def __init__(self, device):
        self.sent = []

    def enqueue(self, direction):
        self.sent.append(direction)


def make_device(monkeypatch, backlog=12):
    streams = {name: Stream() for name in ("compute", "copy", "output")}

    def synchronize():
        Clock.time = max(Clock.time, *(stream.busy_until for stream in streams.values()))

    for name, fake in {
        "current_device": lambda: 0, "set_stream": lambda stream: None, "stream": lambda stream: nullcontext(),
        "synchronize": synchronize,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(cuda, "take_streams", lambda: streams)
    monkeypatch.setattr(cuda, "Primer", Primer)
    monkeypatch.setattr(cuda, "MonotonicClock", Clock)
    monkeypatch.setattr(cuda, "BACKLOG", backlog)
    monkeypatch.setattr(cuda_tensors, "make_host_memory", Memory)
    monkeypatch.setattr(
        cuda, "EventTimeline", lambda device: cuda_events.EventTimeline(device, Event, worker=False)
    )
    return cuda.CudaDevice(Ledger(), CopyCorrection(peak_bytes_per_s=50e9)), streams


def run(device, streams, rng):
    """A random sequence of what a step does; all that one can see of it."""
    marks, events, seen = [], [], []
    ends = {size: (torch.zeros(size), torch.zeros(size)) for size in (8, 8192)}
    for number in range(80):
        device._ledger.step = number // 10
        name = rng.choice(("compute", "compute", "copy", "output"))
        what = rng.choice(("launch", "launch", "copy", "record", "mark", "mark", "wait", "join", "rest", "read"))
        if what == "launch":
            busy = rng.choice((0, 2_000, 90_000))
            work = lambda name=name, busy=busy: setattr(  # noqa: E731
                streams[name], "busy_until", max(streams[name].busy_until, Clock.time) + busy
            )
            device.launch("k", work, Work("k"), stream=name)
        elif what == "copy":
            copy = rng.choice((device.copy_to_device, device.copy_to_host))
            copy(*ends[rng.choice((8, 8192))], buffer="b", stream=name)
        elif what == "record":
            events.append(device.record(name))
        elif what == "mark":
            marks.append((device.mark(), device.clock.now_ns()))
        elif what == "wait" and events:
            device.host_wait(rng.choice(events[-3:]), rng.choice(("tokens", "slot")))
        elif what == "join" and events:
            device.stream_wait(name, rng.choice(events[-3:]))
        elif what == "rest":
            Clock.time += rng.choice((1_000, 200_000, 2_000_000_000))
        elif what == "read":
            device._idle.catch_up(4)
        seen += [
            (lane.border and lane.border.number, lane.last and (lane.last.engine, lane.last.recorded_ns),
             lane.done, lane.engine, lane.kernels, lane.recorded, lane.has_kernels, lane.is_idle,
             [stamp.number for stamp in lane.waiting], len(device.events.pool))
            for lane in device._lanes.values()
        ]  # fmt: skip
    device.synchronize()
    resolved = [mark and (mark.number, mark.lost, mark.device_ns, device.resolve_mark(mark, at)) for mark, at in marks]
    return seen, resolved, device._ledger.take(), device.diagnostics(), device._primer.sent


@needs_compiler
def test_in_every_form_a_sequence_gives_the_same_stamps_marks_and_rows(monkeypatch, driver):
    for seed in range(12):
        found = []
        for form in ("python", "torch", "driver"):
            Clock.time, driver.calls = 0, 0
            choose(monkeypatch, form, driver)
            found.append(run(*make_device(monkeypatch), random.Random(seed)))
            assert (driver.calls > 0) is (form == "driver")
        assert found[0] == found[1] == found[2]
        assert any(resolved for resolved in found[0][1])


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
        assert abs(after[0] - before[0]) < 100

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


def test_without_the_drivers_library_torch_records(monkeypatch):
    monkeypatch.setattr(cuda_native, "LIBRARY", "libno-such-driver.so.1")
    assert cuda_native.driver_record.__wrapped__() == 0
