"""Two steps in flight on real memory: streams are threads, and the test decides when a forward may run."""

import queue
import threading

import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.make_tables import TableFactory
from stepscope.runner.devices.base import Event, Work
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.devices.memory import PageLocked
from stepscope.runner.devices.streams import STREAMS, HappensBefore
from stepscope.runner.inputs.copy_ordering import make_copy_ordering
from stepscope.runner.state.block_table import BlockTable

PATIENCE_S = 20  # only a broken test ever waits this long
WORK = Work("forward")


class StreamsDevice(CpuDevice):
    """Each stream is a thread that does its operations in order; what `fn` of a launch calls may block it."""

    name = "streams"
    pinned = True
    pinned_reason = ""

    def __init__(self, ledger):
        super().__init__(ledger)
        self.host_waits = []
        self._locked = PageLocked()
        self._known = HappensBefore()
        self._done = {0: threading.Event()}
        self._done[0].set()
        self._last = dict.fromkeys(STREAMS, 0)
        self._pending = {stream: [] for stream in STREAMS}
        self._queues = {stream: queue.SimpleQueue() for stream in STREAMS}
        self._threads = [
            threading.Thread(target=self._serve, args=(work,), daemon=True) for work in self._queues.values()
        ]
        for thread in self._threads:
            thread.start()

    def close(self):
        for work in self._queues.values():
            work.put(None)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _serve(self, work):
        while (job := work.get()) is not None:
            awaited, action, done = job
            for op in awaited:
                assert self._done[op].wait(PATIENCE_S)
            action()
            done.set()

    def _submit(self, stream, action):
        op = self._ledger.new_correlation()
        awaited, self._pending[stream] = self._pending[stream], []
        self._known.enqueue(op, stream, awaited)
        self._done[op] = threading.Event()
        self._last[stream] = op
        self._queues[stream].put((awaited, action, self._done[op]))
        return op

    def host_tensor(self, shape, dtype, *, pinned):
        return self._locked.zeros(shape, dtype) if pinned else super().host_tensor(shape, dtype, pinned=False)

    def is_pinned(self, tensor):
        return self._locked.holds(tensor)

    def copy_to_device(self, dst, src, *, buffer, stream="compute", changed_bytes=None):
        return self._submit(stream, lambda: dst.copy_(src)) if src.numel() else 0

    def launch(self, name, fn, work, *, stream="compute", consumes=()):
        self._submit(stream, fn)

    def record(self, stream):
        return Event(stream, self._last[stream])

    def stream_wait(self, stream, event):
        self._pending[stream].append(event.op)

    def host_wait(self, event, reason):
        self.host_waits.append(reason)
        assert self._done[event.op].wait(PATIENCE_S)
        self._known.see(event.op)

    def host_has_seen(self, op):
        return self._known.seen(op)

    def ended(self, op):
        return self._done[op].is_set()

    def drain(self, *streams):
        """Wait, without the device noticing, for what was enqueued on `streams`."""
        for stream in streams or STREAMS:
            assert self._done[self._last[stream]].wait(PATIENCE_S)


class Pipeline:
    """Steps that write their number into a buffer and a block table, and forwards that read both when they are let."""

    def __init__(self, stream, device_buffers, staging="pinned_ring", commit="full"):
        self.ledger = Ledger()
        self.device = StreamsDevice(self.ledger)
        self.ordering = make_copy_ordering(self.device, stream, device_buffers, staging)
        factory = BufferFactory(self.device, self.ledger, staging, ring_slots=3, road=self.ordering.road)
        self.buffer = factory.buffer("ids", 4, torch.int32, stream=self.ordering.stream)
        tables = TableFactory(self.device, factory, ["table"], (2, [3]), self.ordering.stream)
        self.tables = tables.make(commit, "in_place")
        (part,) = self.tables.parts
        self.table = BlockTable(part)
        self.seen = []
        self.gates = []
        if commit == "staged":  # differences grow their buffer once, and a copy into new memory waits for its zeroing
            self.step(2)
            self.gates.pop().set()
            self.device.host_wait(self.device.record("compute"), "warm-up")
            self.device.host_waits.clear()
            self.seen.clear()

    def step(self, number):
        """Enqueue one step; its forward reads only behind `let(number)`."""
        for row in range(2):
            self.table.clear(row)
            self.table.add_row(row, [number] * (1 + number % 3))
        self.ordering.before_copies()
        self.tables.commit(2, 3)
        self.buffer.acquire()[:] = number
        self.buffer.publish(4)
        self.ordering.before_readers()
        gate = threading.Event()
        self.gates.append(gate)
        ids, table = self.buffer.gpu, self.tables.pools[self.ordering.road.sets.current].tables[0]

        def forward():
            assert gate.wait(PATIENCE_S)
            self.seen.append((ids.tolist(), table.tolist()))

        self.device.launch("forward", forward, WORK)
        self.ordering.after_readers()

    def let(self, *numbers):
        for number in numbers:
            self.gates[number - 1].set()

    def right(self, number):
        blocks = [number] * (1 + number % 3)
        return [number] * 4, [blocks + [0] * (3 - len(blocks))] * 2


@pytest.fixture
def pipeline():
    made = []

    def make(*switches, **more):
        made.append(Pipeline(*switches, **more))
        return made[-1]

    yield make
    for each in made:
        each.let(*range(1, len(each.gates) + 1))
        each.device.close()


def run_two(p):
    """Two steps enqueued while the first forward is held; True when the second one's copies could end meanwhile."""
    p.step(1)
    p.step(2)
    arrived = p.device.ended(p.device._last["copy"]) or wait_shortly(p, "copy")
    p.let(1, 2)
    p.device.drain()
    return arrived


def wait_shortly(p, stream):
    return p.device._done[p.device._last[stream]].wait(0.2)


COMMITS = ("full", "dirty_rows", "staged")


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("device_buffers", ["double", "staged_d2d"])
def test_a_copy_lands_beside_the_forward_in_flight_and_nobody_reads_it_too_early(pipeline, device_buffers, commit):
    p = pipeline("dedicated", device_buffers, commit=commit)
    assert run_two(p)
    assert p.seen == [p.right(1), p.right(2)]


@pytest.mark.parametrize("commit", COMMITS)
def test_with_one_guarded_set_the_copy_waits_for_the_forward(pipeline, commit):
    p = pipeline("dedicated", "single_guarded", commit=commit)
    assert not run_two(p)
    assert p.seen == [p.right(1), p.right(2)]


def test_without_the_guard_the_forward_in_flight_reads_the_next_steps_inputs(pipeline):
    p = pipeline("dedicated", "single_unguarded")
    assert run_two(p)
    assert p.seen == [p.right(2), p.right(2)]


@pytest.mark.parametrize("device_buffers", ["double", "staged_d2d"])
def test_many_steps_with_two_in_flight_stay_right(pipeline, device_buffers):
    p = pipeline("dedicated", device_buffers, commit="staged")
    for number in range(1, 12):
        p.step(number)
        if number > 1:
            p.let(number - 1)
    p.let(11)
    p.device.drain()
    assert p.seen == [p.right(number) for number in range(1, 12)]


def test_mutant_sets_that_do_not_alternate_are_not_guarded_by_the_wait_for_the_set_before(pipeline, monkeypatch):
    from stepscope.runner.buffers.device_sets import DeviceSets

    p = pipeline("dedicated", "double")
    readers = [None, None]
    monkeypatch.setattr(DeviceSets, "advance", lambda self: setattr(self, "readers", list(readers)))
    assert run_two(p)
    assert p.seen[0] != p.right(1)


def test_mutant_a_landing_buffer_that_the_next_copy_does_not_wait_for(pipeline):
    p = pipeline("dedicated", "staged_d2d")
    held = threading.Event()
    p.device.launch("earlier", lambda: held.wait(PATIENCE_S), WORK)  # the move of step 1 cannot begin
    p.step(1)
    p.ordering._moved = None  # the mutant
    p.step(2)
    p.device.drain("copy")
    held.set()
    p.let(1, 2)
    p.device.drain()
    assert p.seen[0] != p.right(1)


def test_shared_memory_with_one_set_makes_the_host_wait_for_the_forward(pipeline):
    p = pipeline("compute", "single_guarded", staging="zero_copy")
    p.step(1)
    threading.Timer(0.05, p.let, (1,)).start()
    p.step(2)
    p.let(2)
    p.device.drain()
    assert p.device.host_waits == ["shared_memory"]
    assert p.seen == [p.right(1), p.right(2)]


@pytest.mark.parametrize("commit", ["full", "staged"])
def test_shared_memory_with_two_sets_lets_one_forward_run_on(pipeline, commit):
    p = pipeline("compute", "double", staging="zero_copy", commit=commit)
    p.step(1)
    p.step(2)
    assert p.device.host_waits == []
    p.let(1)
    p.step(3)
    assert p.device.host_waits == ["shared_memory"]
    p.let(2, 3)
    p.device.drain()
    assert p.seen == [p.right(1), p.right(2), p.right(3)]
    assert {row[-1] for row in p.ledger.rows["buffers"]} == {"none"}


def test_shared_memory_that_nobody_waits_for_is_a_hazard_in_the_books_and_in_the_data(pipeline):
    p = pipeline("compute", "single_unguarded", staging="zero_copy")
    p.step(1)
    p.step(2)
    p.let(1, 2)
    p.device.drain()
    assert p.device.host_waits == []
    assert p.seen[0] == p.right(2)
    hazards = [row[-1] for row in p.ledger.rows["buffers"] if row[1] == "ids"]
    assert hazards == ["none", "possible"]
