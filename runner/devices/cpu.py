"""The `cpu` device: everything runs at once in the calling thread. Host phases are measured, the rest is null.

What needs a GPU (device intervals, queue states, page-locked memory, marks) is "not applicable" and stays null.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from ...errors import UsageError
from ...instrumentation.clock import Clock, MonotonicClock
from ...instrumentation.probe.ledger import Ledger
from .base import CaptureFigures, Event, GraphKey, StreamName, T, Work
from .streams import StreamOrder

HOST_LANE = "host:main"


class CpuDevice:
    """See runner.devices.base.Device. Operations end before their call returns, so the host has always seen them."""

    name = "cpu"
    modelled = False
    maps_host = True
    pinned = False
    pinned_reason = "not applicable: the cpu device copies within pageable host memory"

    def __init__(self, ledger: Ledger, clock: Clock | None = None) -> None:
        self.tensor_device = torch.device("cpu")
        self.clock: Clock = MonotonicClock() if clock is None else clock
        self._ledger = ledger
        self._copies = ledger.table("copies")
        self._spans = ledger.table("spans")
        self._order = StreamOrder(ledger)
        self.captures: list[CaptureFigures] = []
        self._graphs: dict[GraphKey, tuple[Callable[[], torch.Tensor], torch.Tensor]] = {}

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed tensor."""
        return torch.zeros(tuple(shape), dtype=dtype)

    def host_tensor(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed tensor in pageable memory, whatever `pinned` asks for."""
        return torch.zeros(tuple(shape), dtype=dtype)

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Never."""
        return False

    def map_host(self, host: torch.Tensor) -> torch.Tensor:
        """The tensor itself: there is no other memory."""
        return host

    def copy_to_device(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
        changed_bytes: int | None = None,
    ) -> int:
        """Copy now. Returns 0, and copies nothing, when there is nothing to copy."""
        return self._copy(dst, src, "h2d", changed_bytes, buffer, stream)

    def copy_to_host(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
    ) -> int:
        """The same towards the host."""
        return self._copy(dst, src, "d2h", None, buffer, stream)

    def launch(
        self, name: str, fn: Callable[[], T], work: Work, *, stream: StreamName = "compute",
        consumes: Sequence[int] = (),
    ) -> T:
        """Run `fn` now; the launch span is the time that it took on the host."""
        op = self._ledger.new_correlation()
        start_ns = self.clock.now_ns()
        result = fn()
        end_ns = self.clock.now_ns()
        self._order.enqueue(stream, op, consumes)
        self._spans.append((self._ledger.step, HOST_LANE, name, "launch", None, start_ns, end_ns, 0, op))
        return result

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Run `fn` once for the tensor that every replay will return."""
        self._graphs[key] = (fn, fn())

    def island(self, fn: Callable[[], None]) -> None:
        """Run `fn`: a graph here is a function, which runs its islands at each replay by itself."""
        fn()

    def captured(self, key: GraphKey) -> bool:
        """Whether `key` can be replayed."""
        return key in self._graphs

    def replay(self, key: GraphKey, work: Work, *, consumes: Sequence[int] = ()) -> torch.Tensor:
        """Run the captured function again, into the tensor that it returned at capture."""
        if key not in self._graphs:
            raise UsageError(f"no graph was captured for {key}; capture it before the first step")
        fn, output = self._graphs[key]
        result = self.launch(f"graph.{key.tokens}", fn, work, consumes=consumes)
        return output if result is output else output.copy_(result)

    def record(self, stream: StreamName) -> Event:
        """An event behind everything on `stream`; done already."""
        return self._order.event(stream)

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """Nothing to wait for; the `edges` row comes with the next operation of `stream`."""
        self._order.wait(stream, event)

    def host_wait(self, event: Event, reason: str) -> None:
        """Return at once, with a `waits` row."""
        now_ns = self.clock.now_ns()
        self._ledger.add("waits", HOST_LANE, reason, event.op, now_ns, now_ns)

    def host_has_seen(self, op: int) -> bool:
        """Always: the call that made `op` returned after its end."""
        return True

    def stream_follows(self, stream: StreamName, op: int) -> bool:
        """Always, for the same reason."""
        return True

    def is_done(self, op: int) -> bool:
        """Always."""
        return True

    def mark(self) -> int | None:
        """None: there is no device time."""
        return None

    def resolve_mark(self, mark: int, asked_ns: int = 0) -> tuple[int, int] | None:
        """None: there is no device time."""
        return None

    def paused(self) -> AbstractContextManager[None]:
        """Nothing: real time does not stop."""
        return nullcontext()

    def idle_until(self, time_ns: int) -> None:
        """Sleep until `time_ns` of this device's clock."""
        rest_ns = time_ns - self.clock.now_ns()
        if rest_ns > 0:
            time.sleep(rest_ns / 1e9)

    def synchronize(self) -> None:
        """Nothing is ever in flight."""

    def activate(self) -> None:
        """Nothing is shared."""

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """The recording knows what this kind of device has not got."""
        return ()

    def close(self) -> None:
        """Nothing outlives the object."""

    def _copy(
        self, dst: torch.Tensor, src: torch.Tensor, direction: str, changed_bytes: int | None, buffer: str,
        stream: StreamName,
    ) -> int:
        size_bytes = src.nbytes
        if not size_bytes:
            return 0
        op = self._ledger.new_correlation()
        start_ns = self.clock.now_ns()
        dst.copy_(src)
        end_ns = self.clock.now_ns()
        self._order.enqueue(stream, op)
        self._copies.append((
            self._ledger.step, direction, size_bytes, changed_bytes, "pageable", "pageable", buffer, None, start_ns,
            end_ns, None, None, None, None, False, op,  # four that need a GPU: start, end, err, queued
        ))  # fmt: skip
        return op
