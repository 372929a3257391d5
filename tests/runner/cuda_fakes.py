"""Streams and events that a test fires by hand, and device rows upon them: the `cuda` bookkeeping without a GPU."""

import torch
from stepscope.instrumentation.probe import Ledger
from stepscope.runner.devices.cuda_events import EventTimeline
from stepscope.runner.devices.cuda_rows import CopyCorrection, DeviceRows, OpenOperation

HOST_NS = 2**60
OFFSET_NS = 2**60 - 5_000
DEVICE = torch.device("cuda", 0)


class FakeStream:
    def __init__(self, device=DEVICE):
        self.device = device


class FakeEvent:
    """Fires when the test says at which device time (ns)."""

    made = 0

    def __init__(self, enable_timing):
        assert enable_timing
        type(self).made += 1
        self.time_ns = None
        self.asked = 0

    def record(self, stream):
        self.time_ns = None

    def fire(self, time_ns):
        self.time_ns = time_ns

    def query(self):
        self.asked += 1
        return self.time_ns is not None

    def synchronize(self):
        if self.time_ns is None:
            self.time_ns = 0

    def elapsed_time(self, other):
        if other.time_ns is None:
            raise RuntimeError("device not ready")
        return (other.time_ns - self.time_ns) / 1e6


def fake_timeline():
    """A timeline that was started, without a worker."""
    line = EventTimeline(DEVICE, FakeEvent, worker=False)
    line.start(FakeStream())
    return line


def stamped(lane, *times, lead_ns=1_000):
    """Stamps that fire at the device times, each recorded `lead_ns` earlier on the host; None: it never fires."""
    stamps = []
    for time in times:
        stamp = lane.record(OFFSET_NS + (time or 0) - lead_ns)
        if time is not None:
            stamp.event.fire(time)
        stamps.append(stamp)
    return stamps


class Rows:
    """DeviceRows on a timeline of fakes; `copy` and `kernel` enqueue one operation between stamps at device times."""

    def __init__(self, timeline, **known):
        self.ledger = Ledger()
        self.timeline = timeline
        self.lane = timeline.lane(FakeStream())
        known = {"peak_bytes_per_s": 1e9, "launch_ns": 500, "kernel_latency_ns": 200, **known}
        self.rows = DeviceRows(self.ledger, timeline, CopyCorrection(**known))
        self.op = 0

    def add(self, begin, end, call, *, row, lane="", profiled=False):
        self.op += 1
        call_ns = OFFSET_NS + call
        operation = OpenOperation(1, self.op, begin, end, call_ns, call_ns + 500, row, lane, profiled=profiled)
        self.rows.waiting.append(operation)

    def copy(self, begin, end, call, size=1_000, profiled=False):
        row = ("h2d", size, None, "pinned", "device", "b")
        self.add(begin, end, call, row=row, lane="gpu:compute", profiled=profiled)

    def kernel(self, begin, end, call):
        self.add(begin, end, call, row=("gpu:compute", "k", "kernel"))

    def finish(self, width_ns=100):
        """Constraints that leave the offset open by `width_ns` on either side, then all rows."""
        for device_ns in (0, 1_900_000_000):
            self.rows.corridor.not_before(device_ns, OFFSET_NS + device_ns - width_ns)
            self.rows.corridor.not_after(device_ns, OFFSET_NS + device_ns + width_ns)
        self.timeline.resolve(HOST_NS)
        self.rows.finish()
        return self.ledger.rows

    def copies(self, **options):
        """(start, end, err, queued) of each copy, times from the offset on."""
        return [
            (row[10] - OFFSET_NS, row[11] - OFFSET_NS, row[12], row[13]) for row in self.finish(**options)["copies"]
        ]

    def spans(self):
        return [(row[5] - OFFSET_NS, row[6] - OFFSET_NS, row[7]) for row in self.finish()["spans"]]
