"""The sim device's door, call by call, in declared time. Times in ns, costs of data/round.json."""

import resource
import sys
from pathlib import Path

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.recording.schema import COPIES, SPANS
from stepscope.runner.devices import make_device
from stepscope.runner.devices.base import GraphKey, Work
from stepscope.runner.devices.sim_clock import DeclaredHost

ROUND = str(Path(__file__).parent / "data" / "round.json")


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def device(ledger):
    host = DeclaredHost(start_ns=1_000_000)
    return make_device("sim", ledger=ledger, calibration=ROUND, cost_model="round", host=host)


def spans(ledger, kind=None):
    names = ["step", *(column.name for column in SPANS)]
    rows = [dict(zip(names, row, strict=True)) for row in ledger.rows["spans"]]
    return [row for row in rows if kind is None or row["kind"] == kind]


def copies(ledger):
    names = ["step", *(column.name for column in COPIES)]
    return [dict(zip(names, row, strict=True)) for row in ledger.rows["copies"]]


def pinned(device, size):
    tensor = device.host_tensor((size,), torch.uint8, pinned=True)
    device.idle_until(2_000_000)  # a round number after the allocation's cost
    return tensor


def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted in /proc")
def test_memory_that_nobody_writes_is_not_taken(device):
    # GIVEN a cache of 256 MiB
    before = resident_pages()
    cache = device.empty((1 << 10, 1 << 16), torch.float32)
    # WHEN a row of 256 KiB is written, THEN little more than that is taken, and the rest reads as zeros
    cache[7] = 1.0
    assert resident_pages() - before < (16 << 20) // resource.getpagesize()
    assert (cache[6].any().item(), cache[8].any().item()) == (False, False)


def test_a_pinned_copy_moves_the_data_and_is_charged_as_asynchronous(device, ledger):
    source, target = pinned(device, 2000), device.empty((2000,), torch.uint8)
    source[:] = 9
    ledger.step = 4
    op = device.copy_to_device(target, source, buffer="ids", changed_bytes=12)

    assert target.tolist() == [9] * 2000
    assert device.clock.now_ns() == 2_004_000
    assert copies(ledger) == [{
        "step": 4, "direction": "h2d", "size_bytes": 2000, "changed_bytes": 12, "src_kind": "pinned",
        "dst_kind": "device", "buffer": "ids", "lane": "gpu:compute", "enqueue_start_ns": 2_000_000,
        "enqueue_end_ns": 2_004_000, "start_ns": 2_007_000, "end_ns": 2_008_100, "err_ns": 0, "queued": False,
        "is_async": True, "correlation": op,
    }]  # fmt: skip
    device.copy_to_device(target, source, buffer="ids")
    assert copies(ledger)[1]["queued"] is True  # 2,008,000 is before the first copy's end


def test_a_small_pageable_copy_blocks_the_host_for_the_measured_time_only(device, ledger):
    device.idle_until(2_000_000)
    target = device.empty((1000,), torch.uint8)
    device.copy_to_device(target, torch.ones(1000, dtype=torch.uint8), buffer="ids")

    (row,) = copies(ledger)
    assert (row["src_kind"], row["is_async"]) == ("pageable", False)
    assert device.clock.now_ns() == row["enqueue_end_ns"] == 2_006_000
    assert (row["start_ns"], row["end_ns"]) == (2_008_000, 2_009_000)  # its last byte lands 3 us behind the call
    assert not ledger.rows["waits"]


def test_a_large_pageable_copy_waits_for_its_stream(device, ledger):
    device.idle_until(2_000_000)
    device.launch("sample", lambda: None, Work("sample", rows=1))  # busy until 2,005,000 + 2,000 + 20,000
    device.launch("lm_head", lambda: None, Work("lm_head", rows=64))  # and 50,000 + 2,500 more: 2,079,500
    size = 65_000
    op = device.copy_to_device(device.empty((size,), torch.uint8), torch.ones(size, dtype=torch.uint8), buffer="t")

    (row,) = copies(ledger)
    assert row["start_ns"] == 2_079_500
    assert device.clock.now_ns() == row["end_ns"] + 7000
    assert [wait[1:4] for wait in ledger.rows["waits"]] == [("host:main", "pageable:t", op)]
    assert device.host_has_seen(op)


def test_copies_back_wait_only_into_pageable_memory(device, ledger):
    target = pinned(device, 500)
    device.copy_to_host(target, torch.full((500,), 3, dtype=torch.uint8), buffer="tokens", stream="output")
    assert device.clock.now_ns() == 2_003_000
    device.idle_until(3_000_000)
    device.copy_to_host(torch.zeros(500, dtype=torch.uint8), target, buffer="tokens")

    first, second = copies(ledger)
    assert target.tolist() == [3] * 500
    assert (first["lane"], first["dst_kind"], first["is_async"], first["end_ns"]) == (
        "gpu:output", "pinned", True, 2_008_000,
    )  # fmt: skip
    assert (second["dst_kind"], second["is_async"], second["end_ns"]) == ("pageable", False, 3_008_000)
    assert device.clock.now_ns() == 3_015_000


def test_an_empty_copy_enqueues_nothing(device, ledger):
    empty = torch.zeros(0, dtype=torch.uint8)
    assert device.copy_to_device(empty, empty, buffer="x") == 0
    assert device.copy_to_host(empty, empty, buffer="x") == 0
    assert device.clock.now_ns() == 1_000_000
    assert not ledger.rows["copies"]
    assert device.host_has_seen(0)


def test_a_launch_ties_its_host_and_device_spans_by_correlation(device, ledger):
    assert device.launch("slots", lambda: 42, Work("slot_mapping", tokens=64, rows=64)) == 42
    launch, kernel = spans(ledger)
    assert launch == {
        "step": None, "lane": "host:main", "name": "slots", "kind": "launch", "depth": None, "start_ns": 1_000_000,
        "end_ns": 1_012_000, "err_ns": 0, "correlation": kernel["correlation"],
    }  # fmt: skip
    assert (kernel["lane"], kernel["kind"], kernel["start_ns"], kernel["end_ns"]) == (
        "gpu:compute", "kernel", 1_014_000, 1_017_000,
    )  # fmt: skip
    device.launch("tail", lambda: None, Work("fill", rows=1))
    assert [row["name"] for row in spans(ledger, "memset")] == ["tail"]


def test_an_eager_forward_is_a_launch_a_layer_and_starves_the_device_when_the_host_is_slow(device, ledger):
    device.launch("forward", lambda: None, Work("forward", tokens=64), consumes=(7,))
    kernels = spans(ledger, "kernel")
    # host 60,001 + 60,001 + 60,000 + 60,000; each layer 27,500 on the device: it waits for the host every time
    assert [row["start_ns"] for row in kernels] == [1_062_001, 1_122_002, 1_182_002, 1_242_002]
    assert [row["end_ns"] - row["start_ns"] for row in kernels] == [27_500] * 4
    assert len(spans(ledger, "launch")) == 4
    assert ledger.rows["edges"] == [(None, "consumer", kernels[0]["correlation"], 7)]


def test_a_replay_returns_the_captured_tensor_with_new_contents(device, ledger):
    state = {"value": 1.0}
    device.capture(GraphKey("full", 8, 8), lambda: torch.full((2,), state["value"]))
    key = GraphKey("full", 8, 8)
    assert device.captured(key)
    assert not device.captured(GraphKey("full", 8, 4))
    before = device.replay(key, Work("forward", tokens=8, kv_tokens=10))
    address = before.data_ptr()
    state["value"] = 2.0
    after = device.replay(key, Work("forward", tokens=8))
    assert after.data_ptr() == address
    assert after.tolist() == [2.0, 2.0]
    first, second = spans(ledger, "graph")
    assert first["end_ns"] - first["start_ns"] == 100_000 + 4005
    assert second["end_ns"] - second["start_ns"] == 100_000
    assert first["start_ns"] == 1_010_000 + 6000


def test_a_piecewise_replay_is_a_graph_and_an_attention_launch_a_layer(device, ledger):
    key = GraphKey("piecewise", 64)
    device.capture(key, lambda: torch.zeros(1))
    device.replay(key, Work("forward", tokens=64, kv_tokens=8000))
    assert len(spans(ledger, "graph")) == len(spans(ledger, "kernel")) == 4
    assert device.clock.now_ns() == 1_000_000 + 4 * (4000 + 5000)
    assert sum(row["end_ns"] - row["start_ns"] for row in spans(ledger, "graph")) == 110_000
    assert sum(row["end_ns"] - row["start_ns"] for row in spans(ledger, "kernel")) == 8000


def test_shapes_that_were_not_measured_are_refused_before_anything_runs(device, ledger):
    ran = []
    with pytest.raises(UsageError, match="uncalibrated shape: 257 tokens"):
        device.capture(GraphKey("full", 257, 1), lambda: ran.append(1))
    with pytest.raises(UsageError, match="largest calibrated is 256"):
        device.launch("forward", lambda: ran.append(1), Work("forward", tokens=300))
    with pytest.raises(UsageError, match="no graph was captured"):
        device.replay(GraphKey("full", 8, 8), Work("forward", tokens=8))
    assert not ran
    assert not ledger.rows["spans"]


def test_happens_before_follows_streams_and_waits_and_not_the_clock(device):
    source, target = pinned(device, 100), device.empty((100,), torch.uint8)
    early = device.copy_to_device(target, source, buffer="a", stream="copy")
    unrelated = device.copy_to_device(target, source, buffer="b", stream="output")
    device.stream_wait("compute", device.record("copy"))
    late = device.copy_to_device(target, source, buffer="c", stream="copy")
    device.launch("reader", lambda: None, Work("fill", rows=1))
    device.idle_until(10**9)
    assert device.is_done(early)
    assert not device.host_has_seen(early)  # it ended long ago, but nothing proves it

    device.host_wait(device.record("compute"), "tokens")
    assert device.host_has_seen(early)  # the reader waited for it
    assert not device.host_has_seen(late)  # enqueued behind the recorded event
    assert not device.host_has_seen(unrelated)
    device.synchronize()
    assert device.host_has_seen(late)
    assert device.host_has_seen(unrelated)


def test_an_event_behind_a_wait_alone_carries_the_wait(device):
    source, target = pinned(device, 100), device.empty((100,), torch.uint8)
    copy = device.copy_to_device(target, source, buffer="a", stream="copy")
    device.stream_wait("compute", device.record("copy"))
    event = device.record("compute")  # nothing was launched on compute
    device.stream_wait("output", event)
    device.copy_to_host(source, target, buffer="back", stream="output")
    device.host_wait(event, "tokens")
    assert device.host_has_seen(copy)


def test_a_wait_for_what_the_host_has_seen_costs_the_call_only(device, ledger):
    device.launch("a", lambda: None, Work("fill", rows=1))  # ends 1,008,000
    event = device.record("compute")
    device.host_wait(event, "first")
    assert device.clock.now_ns() == 1_008_000 + 7000
    device.host_wait(event, "again")
    assert device.clock.now_ns() == 1_015_000 + 1500
    assert [(row[2], row[4], row[5]) for row in ledger.rows["waits"]] == [
        ("first", 1_007_000, 1_015_000), ("again", 1_015_000, 1_016_500),
    ]  # fmt: skip


def test_marks_are_points_on_the_compute_stream_and_cost_nothing(device):
    first = device.mark()
    device.launch("sample", lambda: None, Work("sample", rows=1))
    second = device.mark()
    assert device.clock.now_ns() == 1_005_000
    assert device.resolve_mark(first) == (1_002_000, 0)
    assert device.resolve_mark(second) == (1_027_000, 0)  # behind the kernel that is still running
    source, target = pinned(device, 100), device.empty((100,), torch.uint8)
    device.copy_to_device(target, source, buffer="a", stream="copy")  # ends 2,008,000
    device.stream_wait("compute", device.record("copy"))  # and this call at 2,007,000
    assert device.resolve_mark(device.mark()) == (2_009_000, 0)


def test_pinned_memory_is_known_by_its_storage(device):
    tensor = device.host_tensor((4, 2), torch.int32, pinned=True)
    assert device.clock.now_ns() == 1_000_000 + 2500
    assert device.is_pinned(tensor[1:].view(torch.uint8))
    assert device.is_pinned(torch.from_numpy(tensor.numpy())) is False  # another storage object: nobody vouches for it
    assert not device.is_pinned(device.host_tensor((4,), torch.int32, pinned=False))
    assert not device.is_pinned(device.empty((4,), torch.int32))


def test_a_long_run_keeps_only_what_somebody_may_still_ask_for(device):
    for _ in range(50):
        device.launch("sample", lambda: None, Work("sample", rows=1))
        device.host_wait(device.record("compute"), "tokens")
    lanes = device._lanes
    assert len(lanes._queues._ends) == len(lanes._known._nodes) == 0


def test_measured_host_time_leaves_out_the_mathematics(ledger):
    # GIVEN a function that takes 20 ms of real time, WHEN it runs behind the door, THEN the host pays its launch only
    import time

    device = make_device("sim", ledger=ledger, calibration=ROUND, cost_model="round")
    device.launch("warm", lambda: None, Work("sample", rows=1))

    def slow():
        end = time.perf_counter_ns() + 20_000_000
        while time.perf_counter_ns() < end:
            pass

    before = device.clock.now_ns()
    device.launch("sample", slow, Work("sample", rows=1))
    with device.paused():
        slow()
    passed = device.clock.now_ns() - before
    assert 5000 <= passed < 15_000_000


def test_a_function_that_fails_leaves_the_clock_running(ledger):
    device = make_device("sim", ledger=ledger, calibration=ROUND, cost_model="round")
    with pytest.raises(ZeroDivisionError):
        device.launch("sample", lambda: 1 // 0, Work("sample", rows=1))
    before = device.clock.now_ns()
    while device.clock.now_ns() == before:
        pass  # ends at once unless the clock was left paused
    assert not ledger.rows["spans"]
