"""On a GPU: the probe and its events in a real driver. What needs no GPU is in test_cuda_timeline and test_probe."""

import time

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.experiments.verify.gpu import traced
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.nvtx_ranges import NvtxRanges
from stepscope.runner.devices import cuda_events
from stepscope.runner.devices.base import GraphKey, Work

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

MS_CYCLES = 1_700_000
"""About a millisecond of torch.cuda._sleep on an H200."""


@pytest.fixture
def bench():
    from stepscope.runner.devices.cuda_factory import make_cuda

    ledger = Ledger()
    device = make_cuda(ledger)
    yield ledger, device
    device.close()


class CountingDomain:
    """Stands in for the NVTX domain: counts what is open, and returns -1 as some tools do."""

    def __init__(self):
        self.depth = 0

    def push_range(self, attributes):
        self.depth += 1
        return -1

    def pop_range(self):
        self.depth -= 1

    def get_event_attributes(self, message):
        return message


def test_graphs_are_captured_again_while_events_are_being_read(bench, monkeypatch):
    ledger, device = bench
    monkeypatch.setattr(cuda_events, "WORKER_AGE_NS", 0)  # a worker that leaves nothing to the owner
    data = device.empty((1 << 20,), torch.float32)
    # GIVEN thousands of events that wait to be read by the worker, a kernel behind which they fire late
    for round_ in range(20):
        device.launch("sleep", lambda: torch.cuda._sleep(20 * MS_CYCLES), Work("sleep"))
        for _ in range(100):
            device.launch("add", lambda: data.add_(1), Work("add"))
        # WHEN a graph is captured meanwhile, again and again under the same key
        key = GraphKey("full", 64)
        device.capture(key, lambda: data.mul_(1.0))
        device.replay(key, Work("forward"))
        device.host_wait(device.record("compute"), f"round {round_}")
    device.synchronize()
    # THEN every operation has its times
    spans = [row for row in ledger.rows["spans"] if row[3] in ("kernel", "graph")]
    assert len(spans) == 20 * 102
    assert all(row[5] is not None and row[6] >= row[5] for row in spans)
    assert device.diagnostics() == ()


def test_three_exceptions_leave_nvtx_balanced_and_three_incomplete_steps(bench, monkeypatch):
    ledger, device = bench
    data = device.empty((1024,), torch.float32)
    domain = CountingDomain()
    monkeypatch.setattr(probe_module, "open_ranges", lambda mode: NvtxRanges(domain))
    probe = Probe(ledger, device.clock, marks=device)
    for number in range(12):
        try:
            with probe.step(number) as step:
                for phase in ("preprocess", "forward", "sample"):
                    with step.phase(phase), probe.range(f"{phase}.inner"):
                        device.launch("k", lambda: data.add_(1), Work("k"))
                        if number in (2, 5, 9) and phase == "forward":
                            raise RuntimeError("planted")
        except RuntimeError:
            pass
        assert domain.depth == probe.nvtx.depth == 0
    device.synchronize()
    probe.finish()
    complete = [row[-1] for row in ledger.rows["steps"]]
    assert [number for number, ok in enumerate(complete) if not ok] == [2, 5, 9]
    # and a phase whose end was never recorded is null, while all others are measured and none is 0
    spans = {(row[0], row[1]): row[3] for row in ledger.rows["phases"]}
    assert [key for key, span in spans.items() if span is None] == [(n, "forward") for n in (2, 5, 9)]
    assert all(span > 0 for span in spans.values() if span is not None)


def test_case_16_events_that_have_not_fired_are_unknown_and_not_zero(bench):
    _, device = bench
    mark = device.mark()
    device.launch("sleep", lambda: torch.cuda._sleep(50 * MS_CYCLES), Work("sleep"))
    late = device.mark()
    assert device.resolve_mark(late) is None
    device.synchronize()
    (begin, _), (end, _) = device.resolve_mark(mark), device.resolve_mark(late)
    assert end - begin > 20_000_000


def test_case_16_events_of_another_device_are_refused(bench):
    from stepscope.runner.devices.cuda_factory import make_cuda

    _, device = bench
    other = make_cuda(Ledger())
    try:
        event = other.record("compute")
        with pytest.raises(UsageError, match="another device"):
            device.host_wait(event, "test")
        with pytest.raises(UsageError, match="another device"):
            device.stream_wait("copy", event)
    finally:
        other.close()


@pytest.mark.parametrize("joined", [True, False])
def test_case_18_work_on_a_side_stream_is_joined_or_flagged(bench, joined):
    ledger, device = bench
    probe = Probe(ledger, device.clock, marks=device)
    with probe.step(0) as step, step.phase("forward"):
        device.launch("side", lambda: torch.cuda._sleep(50 * MS_CYCLES), Work("side"), stream="output")
        if joined:
            device.stream_wait("compute", device.record("output"))
    device.synchronize()
    probe.finish()
    ((span_ns, err_ns),) = [(row[3], row[6]) for row in ledger.rows["phases"]]
    if joined:
        assert span_ns > 20_000_000
        assert err_ns < 1_000_000
        assert device.diagnostics() == ()
    else:
        assert span_ns is None
        (note,) = device.diagnostics()
        assert note[2].startswith("side stream output not joined")


def test_case_20_ranges_close_in_the_domain_of_a_listening_tool(bench):
    pytest.importorskip("nvtx")
    ledger, device = bench
    probe = Probe(ledger, device.clock, marks=device, nvtx="on")
    r1, r2 = probe.range("r1"), probe.range("r2")
    with probe.step(0):
        r1.__enter__()
        r2.__enter__()
        r1.__exit__(None, None, None)
        r2.__exit__(None, None, None)
    assert probe.nvtx.depth == 0
    assert [row[2] for row in ledger.rows["spans"]] == ["r1", "r2"]
    assert any("r1 was left while r2 was open" in note[2] for note in probe.diagnostics())


def test_the_clock_is_known_to_12_us_and_no_constraint_is_broken(bench):
    ledger, device = bench
    data = device.empty((1024,), torch.float32)
    end = time.perf_counter() + 3
    while time.perf_counter() < end:
        device.launch("k", lambda: data.add_(1), Work("k"))
        device.host_wait(device.record("compute"), "clock")
    device.synchronize()
    corridor = device._rows.corridor
    errs = [row[7] for row in ledger.rows["spans"] if row[3] == "kernel"]
    assert corridor.violations() == 0
    assert len(errs) > 1_000
    assert None not in errs
    assert sorted(err for err in errs)[len(errs) * 9 // 10] <= 12_000 + 10_000  # the launch's own uncertainty on top


def test_a_large_queued_copy_is_known_to_microseconds_and_takes_what_its_bytes_take(bench):
    # GIVEN copies of 8 MiB behind work, under CUPTI: the link itself varies by microseconds from one to the next
    ledger, device = bench
    size = 8 << 20
    host, gpu = device.host_tensor((size,), torch.uint8, pinned=True), device.empty((size,), torch.uint8)

    def copy(count):
        for _ in range(count):
            device.synchronize()
            device.launch("sleep", lambda: torch.cuda._sleep(4 * MS_CYCLES), Work("sleep"))
            device.copy_to_device(gpu, host, buffer="queued")
            device.host_wait(device.record("compute"), "copy")

    copy(2)  # nothing is cold any more
    device.synchronize()
    warm = len(ledger.rows["copies"])
    # WHEN the profiler looks on
    seen = traced(lambda: copy(10))
    events = [event for event in seen if event.category == "gpu_memcpy" and event.size_bytes == size]
    device.synchronize()
    # THEN each is as long as the profiler says, to 1.5 us, and no faster than the link can be (PCIe 5.0 x16: 63 GB/s)
    rows = ledger.rows["copies"][warm:]
    assert len(rows) == len(events) == 10
    assert all(row[13] for row in rows)
    apart = [row[11] - row[10] - (event.end_ns - event.start_ns) for row, event in zip(rows, events, strict=True)]
    assert max(map(abs, apart)) <= 1_500
    assert all(40 < size / (row[11] - row[10]) < 63 for row in rows), "bytes/ns"


def test_nothing_in_a_step_synchronises_because_of_the_probe(bench):
    ledger, device = bench
    data = device.empty((1024,), torch.float32)
    host = device.host_tensor((1 << 20,), torch.uint8, pinned=True)
    gpu = device.empty((1 << 20,), torch.uint8)
    probe = Probe(ledger, device.clock, marks=device)
    device.launch("sleep", lambda: torch.cuda._sleep(200 * MS_CYCLES), Work("sleep"))
    begin = time.perf_counter()
    for number in range(20):
        with probe.step(number) as step:
            for phase in ("preprocess", "forward", "sample"):
                with step.phase(phase), probe.range("inner"):
                    device.copy_to_device(gpu, host, buffer="b")
                    device.launch("k", lambda: data.add_(1), Work("k"))
    took = time.perf_counter() - begin
    assert not torch.cuda.current_stream().query()  # the device has not even begun
    assert took < 0.08
    device.synchronize()
