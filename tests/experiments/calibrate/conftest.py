"""A bench that measures nothing: every call is made once, and every figure is a plain number."""

from __future__ import annotations

import pytest
import torch
from stepscope.experiments.calibrate.trace import TraceEvent


class FakeGraph:
    def __init__(self, call) -> None:
        self.call = call
        self.kernels = ("gemm", "norm")

    def replay(self) -> None:
        self.call()


class FakeEvent:
    def record(self, stream=None) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, end) -> float:
        return 0.25


class FakeBench:
    """Its trace: every copy takes 1 us; a launch comes 2 us before its 3 us of work, the wait returns 4 us later."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.device_calls = 0

    def host_ns(self, call, *, repeats=600, batch=50) -> float:
        call()
        return 5000.0

    def device_ns(self, call, *, inner=6, repeats=5, launch_us=40) -> float:
        call()
        self.device_calls += 1
        return 1000.0 + self.device_calls

    def graph(self, call) -> FakeGraph:
        return FakeGraph(call)

    def trace(self, work) -> list[TraceEvent]:
        work()
        ways = ("HtoD", "DtoH")
        copies = [event("gpu_memcpy", f"Memcpy {way}", 0, 1000, size=size) for way in ways for size in SIZES]
        launches = [
            event(category, name, start, end, number)
            for number, api in enumerate(("cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch"), start=1)
            for category, name, start, end in (
                ("cuda_runtime", api, 0, 1000), ("kernel", "k", 3000, 6000),
                ("cuda_runtime", "cudaEventSynchronize", 1500, 10_000),
            )
        ]
        return copies + launches

    def occupy(self, microseconds) -> None: ...

    def drain(self) -> None: ...

    def pinned(self, size_bytes) -> torch.Tensor:
        return torch.zeros(size_bytes, dtype=torch.uint8)

    def event(self) -> FakeEvent:
        return FakeEvent()

    def stream(self) -> None: ...

    def side_wait(self, event) -> None: ...


SIZES = (4, 1024, 32 * 1024)


def event(category, name, start, end, number=None, size=None) -> TraceEvent:
    return TraceEvent(
        name=name, category=category, start_ns=float(start), end_ns=float(end), correlation=number, size_bytes=size
    )


@pytest.fixture
def bench() -> FakeBench:
    return FakeBench()
