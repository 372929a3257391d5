"""The `cuda` device on a driver made of Python: streams that are busy until a time, events that fire then. No GPU."""

import time
from contextlib import closing, contextmanager

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.runner.devices import cuda, cuda_tensors
from stepscope.runner.devices.base import Work
from stepscope.runner.devices.cuda_events import EventTimeline
from stepscope.runner.devices.cuda_rows import CopyCorrection

AHEAD_NS = 5_000_000_000
DEVICE = torch.device("cuda", 0)
MS = 1_000_000


def device_now():
    """The fake GPU's clock: 5 s ahead of the host's."""
    return time.perf_counter_ns() + AHEAD_NS


class FakeStream:
    device = DEVICE
    open = None

    def __init__(self):
        self.busy_until = 0

    def work(self, duration_ns):
        self.busy_until = max(self.busy_until, device_now() + 1_000) + duration_ns

    def wait_event(self, event):
        self.busy_until = max(self.busy_until, event.time_ns)

    def query(self):
        return device_now() >= self.busy_until


class FakeEvent:
    def __init__(self, enable_timing=True):
        self.time_ns = None

    def record(self, stream):
        self.time_ns = max(stream.busy_until, device_now() + 1_000)

    def query(self):
        return device_now() >= self.time_ns

    def synchronize(self):
        while not self.query():
            pass

    def elapsed_time(self, other):
        assert self.query()
        assert other.query(), "device not ready"
        return (other.time_ns - self.time_ns) / 1e6


class FakeMemory:
    pinned, reason = True, ""

    def kind(self, tensor):
        return "pinned"


class FakePrimer:
    def __init__(self, device):
        self.sent = []

    def enqueue(self, direction):
        self.sent.append((direction, FakeStream.open))


@pytest.fixture
def gpu(monkeypatch):
    """(make a device, its streams): everything of the driver that CudaDevice touches is replaced."""
    streams = {name: FakeStream() for name in ("compute", "copy", "output")}

    @contextmanager
    def current(stream):
        before, FakeStream.open = FakeStream.open, stream
        yield
        FakeStream.open = before

    def synchronize():
        while not all(stream.query() for stream in streams.values()):
            pass

    for name, fake in {
        "current_device": lambda: 0, "set_stream": lambda stream: None, "default_stream": lambda: None,
        "empty_cache": lambda: None, "synchronize": synchronize, "stream": current,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(cuda, "take_streams", lambda: streams)
    monkeypatch.setattr(cuda, "give_streams", lambda given: None)
    monkeypatch.setattr(cuda_tensors, "make_host_memory", FakeMemory)
    monkeypatch.setattr(cuda, "Primer", FakePrimer)
    monkeypatch.setattr(cuda, "EventTimeline", lambda device: EventTimeline(device, FakeEvent, worker=False))
    return streams


@pytest.fixture
def bench(gpu):
    ledger = Ledger()
    with closing(cuda.CudaDevice(ledger, CopyCorrection(peak_bytes_per_s=50e9))) as device:
        yield ledger, device, gpu


def busy(device, streams, duration_ns, stream="compute"):
    device.launch("sleep", lambda: streams[stream].work(duration_ns), Work("sleep"), stream=stream)


def test_without_a_wait_a_synchronize_is_bound_enough_for_the_clock(bench):
    ledger, device, streams = bench
    mark = device.mark()
    busy(device, streams, 3 * MS)
    late = device.mark()
    assert device.resolve_mark(late) is None  # it has not fired: unknown, not 0
    device.synchronize()
    (begin, _), (end, err) = device.resolve_mark(mark), device.resolve_mark(late)
    assert 3 * MS <= end - begin < 30 * MS
    assert err < 30 * MS
    (span,) = [row for row in ledger.rows["spans"] if row[3] == "kernel"]
    assert span[6] - span[5] >= 2 * MS
    assert device.diagnostics() == ()


@pytest.mark.parametrize("joined", [True, False])
def test_case_18_work_on_a_side_stream_is_joined_or_flagged(bench, joined):
    ledger, device, streams = bench
    probe = Probe(ledger, device.clock, marks=device)
    with probe.step(0) as step, step.phase("forward"):
        busy(device, streams, 20 * MS, stream="output")
        if joined:
            device.stream_wait("compute", device.record("output"))
    device.synchronize()
    probe.finish()
    ((span_ns, err_ns),) = [(row[3], row[6]) for row in ledger.rows["phases"]]
    if joined:
        assert 20 * MS - err_ns <= span_ns < 60 * MS
        assert err_ns < 15 * MS
        assert device.diagnostics() == ()
    else:
        assert span_ns is None
        ((table, column, note),) = device.diagnostics()
        assert (table, column) == ("phases", "span_ns")
        assert note.startswith("side stream output not joined")


def test_side_work_of_an_earlier_phase_does_not_spoil_the_next(bench):
    ledger, device, streams = bench
    probe = Probe(ledger, device.clock, marks=device)
    with probe.step(0) as step:
        with step.phase("forward"):
            busy(device, streams, MS, stream="output")
        with step.phase("sample"):
            busy(device, streams, MS)
    device.synchronize()
    probe.finish()
    assert [row[3] is None for row in ledger.rows["phases"]] == [True, False]


def test_exceptions_leave_their_phase_null_and_all_others_measured(bench):
    ledger, device, streams = bench
    probe = Probe(ledger, device.clock, marks=device)
    for number in range(6):
        try:
            with probe.step(number) as step:
                for phase in ("preprocess", "forward", "sample"):
                    with step.phase(phase):
                        busy(device, streams, 50_000)
                        if number in (1, 3) and phase == "forward":
                            raise RuntimeError("planted")
        except RuntimeError:
            pass
        device.host_wait(device.record("compute"), "tokens")
    device.synchronize()
    probe.finish()
    assert [row[-1] for row in ledger.rows["steps"]] == [True, False, True, False, True, True]
    spans = {(row[0], row[1]): row[3] for row in ledger.rows["phases"]}
    assert [key for key, span in spans.items() if span is None] == [(1, "forward"), (3, "forward")]
    assert min(span for span in spans.values() if span is not None) > 0


def test_copies_are_queued_or_idle_and_small_ones_have_no_event(bench):
    ledger, device, streams = bench
    big, small = torch.zeros(1 << 20, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    targets = torch.zeros_like(big), torch.zeros_like(small)
    device.copy_to_device(targets[0], big, buffer="idle")
    busy(device, streams, 40 * MS)
    device.copy_to_device(targets[0], big, buffer="queued")
    device.copy_to_device(targets[1], small, buffer="small")
    device.synchronize()
    rows = {row[6]: row for row in ledger.rows["copies"]}
    assert {name: row[13] for name, row in rows.items()} == {"idle": False, "queued": True, "small": True}
    assert rows["small"][10:13] == (None, None, None)
    assert rows["idle"][10] >= rows["idle"][8]
    assert rows["queued"][10] > rows["queued"][9] + 20 * MS


def test_a_copy_behind_a_kernel_has_its_begin_on_the_copy_engine(gpu):
    # GIVEN a GPU on which nobody knows when a copy engine takes over
    ledger, streams = Ledger(), gpu
    data, target = (torch.zeros(1 << 20, dtype=torch.uint8) for _ in range(2))
    device = cuda.CudaDevice(ledger, CopyCorrection(peak_bytes_per_s=50e9, queued_err_ns=10**12))

    def copy(name, stream="compute", size=1 << 20):
        device.copy_to_device(target[:size], data[:size], buffer=name, stream=stream)

    with closing(device):
        # and a stream that the host knows to be idle: the copy's start has bounds, and no primer is sent
        busy(device, streams, MS)
        device.host_wait(device.record("compute"), "tokens")
        copy("idle")
        device.host_wait(device.record("compute"), "tokens")
        copy("small", size=64)  # which no copy engine runs: what it leaves behind is no reason either
        copy("behind copies")
        assert device._primer.sent == []
        # WHEN one is queued behind a kernel it gets a primer, on its own stream; one behind a copy needs none
        busy(device, streams, 40 * MS)
        copy("primed")
        copy("behind")
        busy(device, streams, 40 * MS, stream="copy")
        copy("aside", stream="copy")
        assert device._primer.sent == [("h2d", streams["compute"]), ("h2d", streams["copy"])]
        # and neither does one that has no event anyway
        busy(device, streams, MS)
        copy("small", size=64)
        assert len(device._primer.sent) == 2
        device.synchronize()
    # THEN nothing of that uncertainty is left
    errs = {row[6]: row[12] for row in ledger.rows["copies"]}
    assert errs.pop("small") is None
    assert max(errs.values()) < 10**9
    assert all(row[13] for row in ledger.rows["copies"] if row[6] in ("primed", "behind", "aside"))


def test_behind_small_copies_alone_a_kernel_has_no_event_at_its_begin(bench):
    ledger, device, streams = bench
    small = torch.zeros(64, dtype=torch.uint8)
    target, lane = torch.zeros_like(small), device._lanes["compute"]

    def events_of_a_kernel(*, aside=None):
        before = lane.last.number
        device.copy_to_device(target, small, buffer="small")
        if aside is not None:
            device.stream_wait("compute", aside)
        busy(device, streams, MS)
        return lane.last.number - before

    # GIVEN a stream on which everything is known to have ended, WHEN a kernel follows small copies
    busy(device, streams, MS)
    device.host_wait(device.record("compute"), "tokens")
    # THEN only its end is recorded; behind a kernel that may still run, or a wait for another stream, its begin as well
    assert events_of_a_kernel() == 1
    assert events_of_a_kernel() == 2
    device.host_wait(device.record("compute"), "tokens")
    busy(device, streams, MS, stream="output")
    assert events_of_a_kernel(aside=device.record("output")) == 2
    # and its begin lies behind its launch, about a millisecond before its end, within the stated error
    device.synchronize()
    kernels = [row for row in ledger.rows["spans"] if row[3] == "kernel" and row[1] == "gpu:compute"]
    launches = {row[8]: row[5] for row in ledger.rows["spans"] if row[3] == "launch"}
    assert all(row[5] >= launches[row[8]] for row in kernels)
    assert all(row[6] - row[5] + row[7] >= MS for row in kernels)


def test_events_of_another_device_are_refused(bench):
    _, device, _ = bench
    with closing(cuda.CudaDevice(Ledger(), CopyCorrection())) as other:
        event = other.record("compute")
        with pytest.raises(UsageError, match="another device"):
            device.host_wait(event, "test")
        with pytest.raises(UsageError, match="another device"):
            device.stream_wait("copy", event)


@pytest.mark.parametrize("due", [False, True])
def test_after_a_wait_the_clock_gets_an_event_of_its_own_where_one_is_due(bench, due):
    _, device, streams = bench
    device._marks._clock_ns = 0 if due else time.perf_counter_ns() + 10_000 * MS
    busy(device, streams, MS)
    tokens = device.record("compute")
    streams["compute"].busy_until += MS
    tokens.handle[1].event.record(streams["compute"])
    device.host_wait(tokens, "tokens")
    assert (device.mark() is tokens.handle[1]) is not due


def test_without_timing_nothing_is_marked_and_events_come_back(gpu):
    ledger = Ledger()
    with closing(cuda.CudaDevice(ledger, CopyCorrection(), timing=False)) as device:
        pool = device.events.pool
        before = len(pool)
        for _ in range(20):
            busy(device, gpu, 1_000)
            device.host_wait(device.record("compute"), "tokens")
        assert device.mark() is None
        assert len(pool) >= before - 1
        device.synchronize()
        assert [row[5] for row in ledger.rows["spans"] if row[3] == "kernel"] == [None] * 20
        assert {(table, why) for table, _, why in device.diagnostics()} == {
            (table, "run without events around device operations") for table in ("spans", "copies", "phases")
        }


def test_while_the_host_waits_rows_are_written(bench):
    # GIVEN a clock whose windows are short, and steps in which the host waits
    ledger, device, streams = bench
    device._rows.corridor.window_ns = 30 * MS
    for _ in range(90):
        busy(device, streams, MS)
        device.host_wait(device.record("compute"), "tokens")
    # THEN most rows have been written before anybody asks for the end
    written = [row for row in ledger.rows["spans"] if row[3] == "kernel"]
    assert len(written) > 30
    assert all(row[5] is not None and row[7] > 0 for row in written)
