"""The bench on a real GPU: times, graphs with the names of their kernels, the profiler's copies."""

from __future__ import annotations

import pytest
import torch
from stepscope.experiments.calibrate.bench import GpuBench
from stepscope.experiments.calibrate.copies import copy_figures
from stepscope.experiments.calibrate.stack import stack_samples

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.fixture
def gpu():
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        yield GpuBench()


def test_times_grow_with_the_work(gpu) -> None:
    small, large = (torch.zeros(size, device="cuda") for size in (1 << 20, 1 << 28))
    assert 0 < gpu.device_ns(lambda: small.add_(1.0)) < gpu.device_ns(lambda: large.add_(1.0))
    assert 500 < gpu.host_ns(lambda: small.add_(1.0)) < 100_000


def test_a_graph_tells_its_kernels(gpu) -> None:
    a = torch.zeros(1024, device="cuda")

    def twice() -> None:
        a.add_(1.0)
        a.mul_(2.0)

    graph = gpu.graph(twice)
    assert graph.kernels is not None
    assert len(graph.kernels) == 2
    assert graph.kernels[0] != graph.kernels[1]
    gpu.drain()
    before = a[0].item()
    graph.replay()
    gpu.drain()
    assert a[0].item() == (before + 1) * 2


def test_copies_are_seen_by_the_profiler_and_large_pageable_ones_wait(gpu) -> None:
    made = copy_figures(gpu, (4, 1024, 1 << 20), (1 << 20,), (1024, 1 << 20))
    assert [sample.size_bytes for sample in made.h2d_pinned] == [4, 1024, 1 << 20]
    assert made.h2d_pinned[-1].device_ns > 10_000
    (bias,) = made.event_bias
    assert bias.queued_ns > bias.device_ns
    assert made.pageable_behind_work[-1].busy_ns > 1_000_000


def test_the_runners_stack_in_graphs(gpu) -> None:
    from stepscope.experiments.calibrate.run import make_subject
    from stepscope.runner.models.config import NAMED

    subject = make_subject(gpu.device, NAMED["tiny"])
    found = stack_samples(gpu, subject.stack, (1, 16), lambda line: None)
    assert all(sample.kernel_hash and min(sample.round_medians_ns) > 1000 for sample in found)
