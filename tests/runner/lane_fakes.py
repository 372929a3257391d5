"""Events, streams and a driver's function that need no GPU, and the `cuda` device upon them."""

import ctypes
from contextlib import nullcontext

import pytest
import torch
from stepscope.instrumentation.probe import Ledger
from stepscope.instrumentation.probe.native import native
from stepscope.runner.devices import cuda, cuda_events, cuda_marks, cuda_native, cuda_tensors
from stepscope.runner.devices.cuda_rows import CopyCorrection

needs_compiler = pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
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
    """Has a handle once it was recorded, as torch's; counts who recorded it. broken: nobody's next record succeeds."""

    broken = False

    def __init__(self, enable_timing):
        self.time, self.handle, self.by_torch, self.by_driver = None, 0, 0, 0

    @property
    def cuda_event(self):
        return self.handle

    def record(self, stream):
        if Event.broken:
            Event.broken = False
            raise RuntimeError("CUDA error")
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
        error = self.error or 700 * Event.broken
        if not error:
            EVENTS[event].by_driver += 1
            EVENTS[event].fire_behind(STREAMS[stream])
        return error


def make_driver(monkeypatch):
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
