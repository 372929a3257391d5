"""The one door between the runner and whatever executes its device work.

Behind it stand `cpu` (host phases only), `sim` (tokens computed on the CPU, device side in virtual time) and, with a
GPU, `cuda`. Tests put a device with latches behind the same door. The runner never asks which one it is talking to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch

from ...instrumentation.clock import Clock

StreamName = Literal["compute", "copy", "output"]
GraphMode = Literal["none", "piecewise", "full"]
T = TypeVar("T")


class Work(NamedTuple):
    """What an operation does; devices that model time look its cost up, the others ignore it.

    kind           slot_mapping, forward, lm_head (with the gather of its rows), sample, fill, ...
    tokens         tokens that the operation computes, padding included
    rows           requests or rows, padding included
    kv_tokens      sum of KV positions that decode queries read (one query a row)
    prefill_pairs  sum of (query, key) pairs of rows that have more than one query
    moved_bytes    of work that only moves data within the device: bytes read; as many are written
    """

    kind: str
    tokens: int = 0
    rows: int = 0
    kv_tokens: int = 0
    prefill_pairs: int = 0
    moved_bytes: int = 0


class Event(NamedTuple):
    """A point in a stream. `op` is the correlation of the last operation enqueued before it, 0 if there was none.

    `handle` is the backend's own event object; nobody outside the device looks into it.
    """

    stream: StreamName
    op: int
    handle: object = None


@dataclass(frozen=True, slots=True)
class GraphKey:
    """What a captured graph is keyed by: its mode, its padded token count and, for full graphs, its padded rows; and
    the set of input buffers whose addresses it reads.
    """

    mode: GraphMode
    tokens: int
    rows: int | None = None
    buffer_set: int = 0


@dataclass(frozen=True, slots=True)
class CaptureFigures:
    """What capturing one key took: the device's free memory around it by the driver's count, and host time.

    `kernel_hash` changes when other kernels are chosen; None where the driver does not name them.
    """

    key: GraphKey
    free_before_bytes: int
    free_after_bytes: int
    capture_ns: int
    kernel_hash: str | None = None

    @property
    def memory_bytes(self) -> int:
        """Negative when something else gave memory back meanwhile."""
        return self.free_before_bytes - self.free_after_bytes


class NoGraphMemory(Exception):
    """The device has no memory for a graph: its key stays uncaptured. The message is the driver's."""


class Device(Protocol):
    """Memory, copies, launches, ordering and graphs. Each enqueueing call returns the operation's correlation id.

    Host clock: `clock` is the clock of every host timestamp of a run on this device. `paused()` stops it (where it is
    virtual) around work that a real engine on this device would not do on the host: checks, reference results.
    """

    name: str
    modelled: bool
    """True when device times come from a model and not from a device."""
    tensor_device: torch.device
    clock: Clock
    captures: list[CaptureFigures]
    """One entry a captured graph, in the order of capture; empty where captures take no memory of a device."""

    @property
    def pinned(self) -> bool:
        """Whether host_tensor can give page-locked memory (or, on a modelled device, is charged as if it were)."""
        ...

    @property
    def pinned_reason(self) -> str:
        """Why not, when `pinned` is False; else empty."""
        ...

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A zeroed device tensor whose address stays fixed for the device's life."""
        ...

    def host_tensor(self, shape: Sequence[int], dtype: torch.dtype, *, pinned: bool) -> torch.Tensor:
        """A zeroed host tensor; falls back to pageable memory when pinned memory is not to be had."""
        ...

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the device treats the tensor's storage as page-locked."""
        ...

    @property
    def maps_host(self) -> bool:
        """Whether `map_host` is to be had. `pinned_reason` says why not."""
        ...

    def map_host(self, host: torch.Tensor) -> torch.Tensor:
        """The same memory as a device tensor: kernels read and write it where it lies, on the host.

        `host` comes from host_tensor(pinned=True) and lives as long as the result is used. Hazard: nothing orders the
        host's writes against the device's reads but a host_wait.
        """
        ...

    def copy_to_device(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
        changed_bytes: int | None = None,
    ) -> int:
        """Enqueue dst.copy_(src, non_blocking=True) on `stream` and write a `copies` row. Returns its correlation."""
        ...

    def copy_to_host(
        self, dst: torch.Tensor, src: torch.Tensor, *, buffer: str, stream: StreamName = "compute",
    ) -> int:
        """The same from device to host. `dst` may be read only after a host_wait on a later event."""
        ...

    def launch(
        self, name: str, fn: Callable[[], T], work: Work, *, stream: StreamName = "compute",
        consumes: Sequence[int] = (),
    ) -> T:
        """Run `fn` as one device operation (or, for an eager forward, as many as it enqueues) on `stream`.

        `consumes` are correlations of copies of which this is the first reader: they become `edges` rows.
        """
        ...

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Capture `fn` under `key`; everything that it touches must keep its address.

        Raises NoGraphMemory when there is no memory for it; the device can be used on.
        """
        ...

    def island(self, fn: Callable[[], None]) -> None:
        """Run `fn` now; within the capture of a piecewise graph, leave it out of the graph and run it at each replay.

        `fn` has to read and write memory that keeps its address.
        """
        ...

    def captured(self, key: GraphKey) -> bool:
        """Whether `key` can be replayed."""
        ...

    def replay(self, key: GraphKey, work: Work, *, consumes: Sequence[int] = ()) -> torch.Tensor:
        """Replay a captured graph on the compute stream. Returns the tensor that `fn` returned at capture."""
        ...

    def record(self, stream: StreamName) -> Event:
        """An event behind everything enqueued on `stream` so far."""
        ...

    def stream_wait(self, stream: StreamName, event: Event) -> None:
        """Later operations of `stream` start after `event`; nobody on the host waits. Writes an `edges` row."""
        ...

    def host_wait(self, event: Event, reason: str) -> None:
        """Block the host until `event` is done. Writes a `waits` row and establishes happens-before."""
        ...

    def host_has_seen(self, op: int) -> bool:
        """Whether a host_wait so far proves that operation `op` has ended (happens-before, not mere timing)."""
        ...

    def stream_follows(self, stream: StreamName, op: int) -> bool:
        """Whether what is enqueued on `stream` next can start only after the end of `op`: by order, not mere timing."""
        ...

    def is_done(self, op: int) -> bool:
        """Whether operation `op` has in fact ended by now. Says nothing of order: see host_has_seen."""
        ...

    def mark(self) -> Any:
        """A timing event on the compute stream, for phase borders; None where there is no device time. What is given
        only this device can read.
        """
        ...

    def resolve_mark(self, mark: Any, asked_ns: int = 0) -> tuple[int, int] | None:
        """(time_ns, err_ns) of a mark on the host clock's scale, or None while it is not known. `asked_ns` is a host
        time at which it was asked for: it does not lie before that.
        """
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop a virtual host clock for the block; on real devices nothing happens."""
        ...

    def idle_until(self, time_ns: int) -> None:
        """Nothing to do before `time_ns`: a virtual clock jumps there, a real one sleeps."""
        ...

    def activate(self) -> None:
        """Before any work in a process with several devices on one GPU: this is the one that works now."""
        ...

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for what this device could not measure."""
        ...

    def synchronize(self) -> None:
        """Wait for everything enqueued. Never inside a step."""
        ...

    def close(self) -> None:
        """Give back what outlives the object: threads, graphs, device memory. The device is not used afterwards."""
        ...
