"""What a fleet needs of a cluster: workers on other machines, calls to them, and what became of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Handle = Any
Call = Any


class WorkerLostError(Exception):
    """A call came to no end, because its worker did.

    kind       the class of failure of the task that it had (see `workers.failures`)
    elsewhere  the node or the network failed, not the task: it may be run again on another worker
    """

    def __init__(self, reason: str, *, kind: str = "lost", elsewhere: bool = True) -> None:
        super().__init__(" ".join(reason.split()))
        self.kind, self.elsewhere = kind, elsewhere


class Cluster(Protocol):
    """Calls return at once, except `ready`. No call is ever repeated by the cluster: a repeat would hide noise."""

    unit: str
    """What a worker takes one of for itself: GPU or CPU."""

    def capacity(self) -> int:
        """How many workers would fit if nobody else were there. Raises MeasurementError when the cluster is gone."""
        ...

    def describe(self) -> str:
        """One clause: where it is, what it has, what of that is free."""
        ...

    def spawn(self) -> Handle:
        """Ask for a worker. It starts as soon as there is room for it."""
        ...

    def hello(self, handle: Handle) -> Call:
        """Ask a worker who it is: a mapping of facts."""
        ...

    def run(self, handle: Handle, task: dict[str, Any]) -> Call:
        """Hand it a task, as plain data; the answer is a Reply's."""
        ...

    def ready(self, calls: Sequence[Call], timeout_s: float) -> list[Call]:
        """Those that came to an end; waits for the first one at most `timeout_s`."""
        ...

    def result(self, call: Call) -> Any:
        """What a call that is ready gave. Raises WorkerLostError."""
        ...

    def kill(self, handle: Handle) -> None:
        """End a worker, whatever it does; nothing happens where it is gone."""
        ...

    def close(self) -> None:
        """Leave the cluster."""
        ...
