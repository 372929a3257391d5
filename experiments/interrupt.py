"""Ctrl-C that is noticed between two steps, so that what was measured is whole when it is written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from types import FrameType, TracebackType
from typing import Any

AGAIN_NS = 200_000_000
"""A signal that comes sooner behind another is the same request: timeout(1) sends each to its process and then to the
process's group, where it may arrive twice (6 us apart, in one of 60 runs)."""


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM ends the program as Ctrl-C does: with what it began taken down. Only in the main thread, and
    where no library takes it in C (see Interrupt)."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is None:
        yield
        return

    asked_ns = -AGAIN_NS

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked_ns
        if monotonic_ns() - asked_ns >= AGAIN_NS:
            asked_ns = monotonic_ns()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interrupt:
    """Inside the block the first SIGINT only sets `requested`; a second one raises KeyboardInterrupt at once.

    others  signals that ask for the same: SIGTERM is how schedulers of clusters ask
    Outside the main thread Python delivers no signals, and the block changes nothing. A signal that a library takes in
    C, as a profiler's may that was loaded before Python, stays with it: Python could not give it back.
    """

    def __init__(self, *others: signal.Signals) -> None:
        self.requested = False
        self._asked_ns = 0
        self._signals = (signal.SIGINT, *others)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            ours = [number for number in self._signals if signal.getsignal(number) is not None]
            self._before = {number: signal.signal(number, self._note) for number in ours}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and monotonic_ns() - self._asked_ns >= AGAIN_NS:
            raise KeyboardInterrupt
        if not self.requested:
            self._asked_ns = monotonic_ns()
        self.requested = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
