"""Order between operations: what each stream still waits for, and what the host can know to have ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...instrumentation.probe.ledger import Ledger
from .base import Event, StreamName

STREAMS: tuple[StreamName, ...] = ("compute", "copy", "output")


def lane_of(stream: StreamName) -> str:
    """The Recording's name of a device queue."""
    return f"gpu:{stream}"


class StreamOrder:
    """Last operation of each stream, and waits that its next operation must honour. Writes the `edges` rows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._last: dict[StreamName, int] = dict.fromkeys(STREAMS, 0)
        self._pending: dict[StreamName, list[int]] = {stream: [] for stream in STREAMS}

    def enqueue(self, stream: StreamName, op: int, consumes: Iterable[int] = ()) -> tuple[int, ...]:
        """Make `op` the last operation of `stream`. Returns the operations that it must wait for."""
        self._last[stream] = op
        waits: tuple[int, ...] = ()
        pending = self._pending[stream]
        if pending:
            waits = tuple(pending)
            pending.clear()
            for awaited in waits:
                self._ledger.add("edges", "event", op, awaited)
        for copy in consumes:
            if copy:  # 0 is a copy of nothing
                self._ledger.add("edges", "consumer", op, copy)
        return waits

    def pending(self, stream: StreamName) -> tuple[int, ...]:
        """What the next operation of `stream` will wait for; changes nothing."""
        return tuple(self._pending[stream])

    def event(self, stream: StreamName) -> Event:
        """A point behind everything on `stream`, waits without an operation behind them included (in `handle`)."""
        return Event(stream, self._last[stream], tuple(self._pending[stream]))

    def wait(self, stream: StreamName, event: Event) -> None:
        """The next operation of `stream` starts after `event`. A stream needs no event to follow itself."""
        if event.stream == stream:
            return
        pending = self._pending[stream]
        pending += [op for op in event_ops(event) if op not in pending]


def event_ops(event: Event) -> tuple[int, ...]:
    """The operations that must have ended before `event` is done."""
    behind = event.handle if isinstance(event.handle, tuple) else ()
    return tuple(op for op in (event.op, *behind) if op)


@dataclass(frozen=True, slots=True)
class _Node:
    """Place of an operation: its stream, its number there, and what its end proves (a number a stream)."""

    stream: int
    number: int
    proves: tuple[int, ...]


class HappensBefore:
    """Vector clocks: an operation's end proves the end of all before it on its stream and of all that those awaited.

    `see(op)` is a host wait; from then on `seen` answers for everything that it proves. Operations that the host has
    seen are forgotten in order, so that a long run does not grow.
    Source: Mattern, "Virtual Time and Global States of Distributed Systems", 1989.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}  # in enqueue order: op numbers ascend
        self._tails: list[tuple[int, ...]] = [(0,) * len(STREAMS)] * len(STREAMS)
        self._host: tuple[int, ...] = (0,) * len(STREAMS)

    def enqueue(self, op: int, stream: StreamName, waits: Iterable[int]) -> None:
        """Append `op` to `stream` behind `waits`. Numbers of operations ascend."""
        index = STREAMS.index(stream)
        proves = self._tails[index]
        for awaited in waits:
            node = self._nodes.get(awaited)
            if node is not None:
                proves = tuple(map(max, proves, node.proves))
        number = proves[index] + 1
        proves = (*proves[:index], number, *proves[index + 1 :])
        self._tails[index] = proves
        self._nodes[op] = _Node(index, number, proves)

    def see(self, op: int) -> list[int]:
        """The host knows that `op` has ended. Returns the operations that nobody needs to remember any more."""
        node = self._nodes.get(op)
        if node is None:
            return []
        self._host = tuple(map(max, self._host, node.proves))
        forgotten = []
        for candidate, place in self._nodes.items():
            if place.number > self._host[place.stream]:
                break
            forgotten.append(candidate)
        for candidate in forgotten:
            del self._nodes[candidate]
        return forgotten

    def seen(self, op: int) -> bool:
        """Whether the host knows that `op` has ended. A forgotten operation was seen; 0 stands for no operation."""
        node = self._nodes.get(op)
        return node is None or node.number <= self._host[node.stream]

    def orders(self, op: int, stream: StreamName, waits: Iterable[int]) -> bool:
        """Whether what is enqueued on `stream` next, behind `waits`, starts after the end of `op` by order alone."""
        node = self._nodes.get(op)
        if node is None or self.seen(op):
            return True
        behind = [self._nodes[awaited].proves for awaited in waits if awaited in self._nodes]
        return any(proves[node.stream] >= node.number for proves in (self._tails[STREAMS.index(stream)], *behind))
