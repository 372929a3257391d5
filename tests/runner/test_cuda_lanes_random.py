"""Whatever a step does in whatever order, with errors: lanes, stamps and marks in C are those in Python."""

import random

import torch
from stepscope.runner.devices.base import Work

from .lane_fakes import Clock, Event, choose, make_device, make_driver, needs_compiler


class Doer:
    """What a step does, with errors, by a random choice of names of methods."""

    often = ("launch", "mark")
    names = ("launch", "copy", "record", "mark", "wait", "join", "rest", "read", "fail", "refuse", *often)

    def __init__(self, device, streams, rng, driver):
        self.device, self.streams, self.rng, self.driver = device, streams, rng, driver
        self.marks, self.events = [], []
        self.ends = {size: (torch.zeros(size), torch.zeros(size)) for size in (8, 8192)}

    def launch(self, name):
        stream, busy = self.streams[name], self.rng.choice((0, 2_000, 90_000))

        def work():
            stream.busy_until = max(stream.busy_until, Clock.time) + busy

        self.device.launch("k", work, Work("k"), stream=name)

    def copy(self, name):
        copy = self.rng.choice((self.device.copy_to_device, self.device.copy_to_host))
        copy(*self.ends[self.rng.choice((8, 8192))], buffer="b", stream=name)

    def record(self, name):
        self.events.append(self.device.record(name))

    def mark(self, name):
        self.marks.append((self.device.mark(), self.device.clock.now_ns()))

    def wait(self, name):
        if self.events:
            self.device.host_wait(self.rng.choice(self.events[-3:]), self.rng.choice(("tokens", "slot")))

    def join(self, name):
        if self.events:
            self.device.stream_wait(name, self.rng.choice(self.events[-3:]))

    def rest(self, name):
        Clock.time += self.rng.choice((1_000, 200_000, 2_000_000_000))

    def read(self, name):
        self.device._idle.catch_up(4)

    def fail(self, name):
        Event.broken = True

    def refuse(self, name):  # torch is asked then
        self.driver.error = 201 - self.driver.error


def run(device, doer):
    """All that one can see of a random sequence."""
    seen = []
    for number in range(80):
        device._ledger.step = number // 10
        name = doer.rng.choice(("compute", "compute", "copy", "output"))
        try:
            getattr(doer, doer.rng.choice(doer.names))(name)
        except RuntimeError as error:
            seen.append(str(error))
        seen += [
            (lane.border and lane.border.number, lane.last and (lane.last.engine, lane.last.recorded_ns),
             lane.done, lane.engine, lane.kernels, lane.recorded, lane.has_kernels, lane.is_idle,
             [stamp.number for stamp in lane.waiting], len(device.events.pool))
            for lane in device._lanes.values()
        ]  # fmt: skip
    Event.broken = False
    device.synchronize()
    resolved = [
        mark and (mark.number, mark.lost, mark.device_ns, device.resolve_mark(mark, at)) for mark, at in doer.marks
    ]
    return seen, resolved, device._ledger.take(), device.diagnostics(), device._primer.sent


@needs_compiler
def test_in_every_form_a_sequence_gives_the_same_stamps_marks_and_rows(monkeypatch):
    driver = make_driver(monkeypatch)
    for seed in range(12):
        found = []
        for form in ("python", "torch", "driver"):
            Clock.time, driver.calls, driver.error = 0, 0, 0
            choose(monkeypatch, form, driver)
            device, streams = make_device(monkeypatch)
            found.append(run(device, Doer(device, streams, random.Random(seed), driver)))
            assert (driver.calls > 0) is (form == "driver")
        assert found[0] == found[1] == found[2]
        assert any(resolved for resolved in found[0][1])
