"""Memory on a GPU: graphs that find none, pinned memory that is refused, what is really locked, what a point leaves."""

import threading
from contextlib import closing

import pytest
import torch
from stepscope.analysis.graph_memory import graph_memory
from stepscope.experiments.measure import measure
from stepscope.experiments.plan import make_plan
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices import cuda_memory, make_device
from stepscope.runner.devices.base import GraphKey, NoGraphMemory, Work

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
MIB = 1 << 20


@pytest.fixture
def device():
    with closing(make_device("cuda", ledger=Ledger())) as opened:
        yield opened


@pytest.fixture
def little_memory():
    """Leaves about 64 MiB to this process."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 64 * MIB) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("mode", ["full", "piecewise"])
def test_a_graph_without_memory_leaves_the_device_usable(device, little_memory, mode):
    # GIVEN a forward that needs 256 KiB a token, and an island between its two pieces
    source = device.empty((512,), torch.float32)

    def forward(tokens):
        def run():
            wide = source[:tokens, None].expand(tokens, 1 << 16) + 1.0
            device.island(lambda: wide.add_(1.0))
            return wide.sum(1)

        return run

    # WHEN sizes of 512, 64 and 16 tokens are captured, largest first
    with pytest.raises(NoGraphMemory, match="out of memory"):
        device.capture(GraphKey(mode, 512), forward(512))
    for tokens in (64, 16):
        device.capture(GraphKey(mode, tokens), forward(tokens))
    # THEN the two that fit are there, with what they took, and they compute
    assert not device.captured(GraphKey(mode, 512))
    assert [figures.key.tokens for figures in device.captures] == [64, 16]
    assert device.captures[0].memory_bytes >= 16 * MIB
    assert all(figures.capture_ns > 0 for figures in device.captures)
    source.fill_(3.0)
    for tokens in (64, 16):
        found = device.replay(GraphKey(mode, tokens), Work("forward", tokens))
        assert found.tolist() == [5.0 * (1 << 16)] * tokens


def test_an_error_inside_a_capture_is_raised_and_ends_it(device):
    def broken():
        source = torch.ones(4, device="cuda")
        if torch.cuda.is_current_stream_capturing():
            raise ValueError("planted")
        return source

    with pytest.raises(ValueError, match="planted"):
        device.capture(GraphKey("full", 4), broken)
    device.capture(GraphKey("full", 4), lambda: torch.ones(4, device="cuda") * 2)
    assert device.replay(GraphKey("full", 4), Work("forward", 4)).tolist() == [2.0] * 4


def test_case_44_pinned_requests_are_rounded_up_to_a_power_of_two(device):
    def locked():
        return torch.cuda.host_memory_stats()["allocated_bytes.current"]

    for asked, reserved in ((135_790_592, 268_435_456), (36 * MIB + 1, 64 * MIB)):
        before = locked()
        tensor = device.host_tensor((asked,), torch.uint8, pinned=True)
        assert device.is_pinned(tensor)
        assert locked() - before == reserved


def point(**runner):
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 8, "prompt_len": 20, "output_len": 12}},
        "device": "cuda", "measure": {"warmup_steps": 2},
        "runner": {"graph_mode": "full", "capture_sizes": [4, 8, 160], **runner},
    }  # fmt: skip
    (made,) = make_plan([("test", tree)], {}).points
    return made.spec


def refuse(shape, dtype):
    raise RuntimeError("CUDA error: operation not supported")


@pytest.mark.parametrize("reason", ["page-locked memory is not available: CUDA error", "Windows Subsystem for Linux"])
def test_case_42_a_run_without_pinned_memory_completes_and_says_so(tmp_path, monkeypatch, reason):
    if "Windows" in reason:
        monkeypatch.setattr(cuda_memory, "is_wsl", lambda: True)
    else:
        monkeypatch.setattr(cuda_memory, "page_locked", refuse)
    measured = measure(point(), tmp_path / "recording")
    environment, copies = measured.recording.meta.environment, measured.recording.table("copies")
    assert measured.outcome.tokens_got == measured.outcome.tokens_expected == 96
    assert environment["pin_memory"] is False
    assert reason in environment["pin_memory_reason"]
    assert set(copies["src_kind"][copies["direction"] == "h2d"]) == {"pageable"}
    assert set(copies["dst_kind"][copies["direction"] == "d2h"]) == {"pageable"}
    assert not copies["is_async"].any()
    assert set(measured.recording.table("buffers")["memory"]) == {"pageable"}


def test_a_container_that_allows_little_gets_pageable_buffers(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda_memory, "memory_limit_bytes", lambda: 64 * 1024)
    recording = measure(point(), tmp_path / "recording").recording
    assert recording.meta.environment["pin_memory"] is False
    assert "the container's limit of 65536 bytes" in recording.meta.environment["pin_memory_reason"]
    copies = recording.table("copies")
    assert not copies["is_async"][copies["src_kind"] == "pageable"].any()


def test_a_point_records_its_graphs_and_leaves_nothing_behind(tmp_path):
    left = []
    for number in range(3):
        recording = measure(point(), tmp_path / str(number)).recording
        workers = [thread for thread in threading.enumerate() if thread.name.startswith("stepscope")]
        left.append((torch.cuda.memory_reserved(), len(workers)))
    memory = graph_memory(recording.table("calibration"))
    assert memory.num_sizes == 3
    assert memory.measured_bytes > 0
    captured = recording.table("calibration")
    assert set(captured["key"][captured["name"] == "graph_capture"]) == {"full/4", "full/8", "full/160"}
    assert set(captured["gpu"]) == {recording.meta.environment["gpu_name"]}
    assert left[0] == left[1] == left[2]
    assert left[0][1] == 0, "no event worker outlives its point"
