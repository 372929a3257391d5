"""Real races on real memory: a device whose copies happen on a thread, and only when the test lets them."""

import queue
import threading

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.guards import NoGuard
from stepscope.runner.buffers.road import Road
from stepscope.runner.devices.base import Event
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.devices.memory import PageLocked
from stepscope.runner.devices.streams import HappensBefore

PATIENCE_S = 20  # only a broken test ever waits this long


class LatchDevice(CpuDevice):
    """Asynchronous copies of pinned memory on a worker thread, in order. While `hold` is on they do not begin.

    `arrived` keeps what each copy really read. `on_block` is called when the host begins to block in host_wait.
    """

    name = "latch"
    pinned = True
    pinned_reason = ""

    def __init__(self, ledger, pinned=True):
        super().__init__(ledger)
        self.pinned = pinned
        self.arrived = []
        self.on_block = lambda: None
        self._locked = PageLocked()
        self._latch = threading.Event()
        self._latch.set()
        self._work = queue.SimpleQueue()
        self._done = {}
        self._known = HappensBefore()
        self._last = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def hold(self):
        """Copies enqueued from now on wait for the next release."""
        if self._latch.is_set():
            self._latch = threading.Event()

    def release(self):
        self._latch.set()

    def drain(self):
        """Let everything end, without the device noticing that anybody waited: time, but no proof."""
        self.release()
        for done in list(self._done.values()):
            assert done.wait(PATIENCE_S)

    def close(self):
        self.release()
        self._work.put(None)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _serve(self):
        while (job := self._work.get()) is not None:
            latch, action, done = job
            assert latch.wait(PATIENCE_S)
            action()
            done.set()

    def _submit(self, action):
        op = self._ledger.new_correlation()
        self._known.enqueue(op, "compute", ())
        self._done[op] = threading.Event()
        self._last = op
        self._work.put((self._latch, action, self._done[op]))
        return op

    def host_tensor(self, shape, dtype, *, pinned):
        return self._locked.zeros(shape, dtype) if pinned else super().host_tensor(shape, dtype, pinned=False)

    def is_pinned(self, tensor):
        return self._locked.holds(tensor)

    def copy_to_device(self, dst, src, *, buffer, stream="compute", changed_bytes=None):
        def move():
            dst.copy_(src)
            self.arrived.append(dst.clone())

        if not self.is_pinned(src):
            src = src.clone()  # staged by the driver before the call returns
        return self._submit(move)

    def launch(self, name, fn, work, *, stream="compute", consumes=()):
        self._submit(fn)

    def record(self, stream):
        return Event(stream, self._last)

    def host_wait(self, event, reason):
        if not self._done[event.op].is_set():
            self.on_block()
        assert self._done[event.op].wait(PATIENCE_S)
        self._known.see(event.op)

    def host_has_seen(self, op):
        return self._known.seen(op)

    def is_done(self, op):
        return op not in self._done or self._done[op].is_set()

    def synchronize(self):
        self.drain()
        self._known.see(self._last)


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def device(ledger):
    device = LatchDevice(ledger)
    yield device
    device.close()


UNGUARDED = Road(make_guard=lambda *_: NoGuard())


def write(buffer, value):
    buffer.acquire()[:] = value
    buffer.publish(4)


def verdicts(device, ledger, factory):
    """Everything ended, every row written: (hazards in order of use, first element of what arrived)."""
    device.synchronize()
    factory.flush()
    return [row[-1] for row in ledger.rows["buffers"]], [int(data.flatten()[0]) for data in device.arrived]


def test_without_the_guard_a_write_during_the_copy_corrupts_it_and_is_observed(device, ledger):
    # GIVEN one pinned slot, nothing that guards it, and a copy that has not begun
    factory = BufferFactory(device, ledger, "pinned_single", road=UNGUARDED, verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    device.hold()
    write(buffer, 1)
    # WHEN the next step writes into the slot
    write(buffer, 2)
    hazards, arrived = verdicts(device, ledger, factory)
    # THEN the first step's copy carried the second step's data
    assert arrived == [2, 2]
    assert hazards == ["observed", "possible"]


def test_with_the_guard_the_writer_waits_and_nothing_is_ever_corrupt(device, ledger):
    factory = BufferFactory(device, ledger, "pinned_single", verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    blocked = []

    def open_the_latch():
        blocked.append(list(device.arrived))
        device.release()

    device.on_block = open_the_latch
    device.hold()
    write(buffer, 1)
    write(buffer, 2)
    hazards, arrived = verdicts(device, ledger, factory)

    assert blocked == [[]]  # the writer blocked once, before the copy had begun
    assert arrived == [1, 2]
    assert hazards == ["none", "none"]


def test_without_the_guard_on_an_idle_queue_a_hazard_is_possible_and_not_observed(device, ledger):
    factory = BufferFactory(device, ledger, "pinned_single", road=UNGUARDED, verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    for value in (1, 2, 3):
        write(buffer, value)
        device.drain()  # the copy is over before the next write, by luck and not by order
    hazards, arrived = verdicts(device, ledger, factory)

    assert arrived == [1, 2, 3]
    assert hazards == ["none", "possible", "possible"]


def test_a_ring_protects_itself_only_as_far_as_it_is_long(device, ledger):
    factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=2, road=UNGUARDED, verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    device.hold()
    for value in (1, 2, 3):
        write(buffer, value)
    hazards, arrived = verdicts(device, ledger, factory)

    assert arrived == [3, 2, 3]
    assert hazards == ["observed", "none", "possible"]


def test_the_block_tables_slot_races_in_the_same_way(device, ledger):
    factory = BufferFactory(device, ledger, "pinned_single", road=UNGUARDED, verify=True)
    table = factory.table("blocks", factory.pools(3, [2]))
    device.hold()
    for value in (1, 2):
        table.mirror[:] = value
        for row in range(3):
            table.touch(row)
        table.publish(3)
    hazards, arrived = verdicts(device, ledger, factory)

    assert arrived == [2, 2]
    assert hazards == ["observed", "possible"]


@pytest.mark.parametrize("staging", ["pageable", "fresh_pinned"])
def test_memory_that_is_not_reused_in_flight_needs_no_guard(device, ledger, staging):
    factory = BufferFactory(device, ledger, staging, road=UNGUARDED, verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    device.hold()
    write(buffer, 1)
    write(buffer, 2)
    hazards, arrived = verdicts(device, ledger, factory)

    assert arrived == [1, 2]
    assert hazards == ["none", "none"]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_observed_is_exactly_the_set_of_corrupt_copies(device, ledger, slots):
    # GIVEN 80 uses, copies held at random, and the truth: what each copy really read
    rng = np.random.default_rng(slots)
    factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=slots, road=UNGUARDED, verify=True)
    buffer = factory.buffer("ids", 16, torch.int32)
    sent = []
    for _ in range(80):
        sent.append(rng.integers(0, 1000, size=16, dtype=np.int32))
        buffer.acquire()[:] = sent[-1]
        if rng.random() < 0.15:
            device.drain()
        if rng.random() < 0.6:
            device.hold()
        buffer.publish(16)
        if rng.random() < 0.15:
            device.drain()
    hazards, _ = verdicts(device, ledger, factory)

    corrupt = {use for use, data in enumerate(sent) if not np.array_equal(data, device.arrived[use].numpy())}
    assert {use for use, verdict in enumerate(hazards) if verdict == "observed"} == corrupt
    assert 10 < len(corrupt) < 80  # neither empty nor everything; the thread decides how many


def test_with_the_guard_random_holds_never_corrupt(device, ledger):
    rng = np.random.default_rng(7)
    factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=2, verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    device.on_block = device.release
    for value in range(60):
        if rng.random() < 0.5:
            device.hold()
        write(buffer, value)
        if rng.random() < 0.5:
            device.release()
    hazards, arrived = verdicts(device, ledger, factory)

    assert arrived == list(range(60))
    assert set(hazards) == {"none"}


def test_rows_written_late_keep_the_step_of_their_copy(device, ledger):
    factory = BufferFactory(device, ledger, "pinned_ring", verify=True)
    buffer = factory.buffer("ids", 4, torch.int32)
    device.hold()
    for step in (5, 6):
        ledger.step = step
        write(buffer, step)
    ledger.step = None
    assert not ledger.rows["buffers"]
    verdicts(device, ledger, factory)
    assert [row[0] for row in ledger.rows["buffers"]] == [5, 6]
