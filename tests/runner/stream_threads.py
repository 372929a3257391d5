"""Streams as threads, and steps whose forwards run when a test lets them: races on real memory, made to happen."""

import queue
import threading

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

    def stream_follows(self, stream, op):
        return self._known.orders(op, stream, self._pending[stream])

    def is_done(self, op):
        return self.ended(op)

    def ended(self, op):
        return self._done[op].is_set()

    def drain(self, *streams):
        """Wait, without the device noticing, for what was enqueued on `streams`."""
        for stream in streams or STREAMS:
            assert self._done[self._last[stream]].wait(PATIENCE_S)


class Pipeline:
    """Steps that write their number into a buffer and a block table, and forwards that read both when they are let."""

    def __init__(self, stream, device_buffers, staging="pinned_ring", commit="full", verify=False):
        self.ledger = Ledger()
        self.device = StreamsDevice(self.ledger)
        self.ordering = make_copy_ordering(self.device, stream, device_buffers, staging)
        road = self.ordering.road
        factory = self.factory = BufferFactory(
            self.device, self.ledger, staging, ring_slots=3, road=road, verify=verify
        )
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
