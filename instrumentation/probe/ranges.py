"""Timed host ranges: context managers that note two entries at either end.

In a real step each call meets cold caches, so what counts is how little memory it touches: one frame an end, names
bound in it, no bound method (the methods are static), nothing looked up and no row made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from .borders import Border
from .nvtx_ranges import NvtxRanges


class ProbeClock(Protocol):
    """The part of a clock that the probe uses; the probe imports nothing of ours.

    A clock may have an attribute `plain`, True where `leave` is `now_ns`: then nobody pays for passing the name.
    """

    def now_ns(self) -> int:
        """Time now, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`; a declared clock first advances by that range's cost."""
        ...


def end_of(clock: ProbeClock, name: str) -> Callable[[], int]:
    """What reads the time at the end of the range `name`."""
    return clock.now_ns if getattr(clock, "plain", False) else partial(clock.leave, name)


def timed_range(
    name: str, noted: list[Any], clock: ProbeClock, nvtx: NvtxRanges | None
) -> AbstractContextManager[None]:
    """A named range that may be entered again while it is open. `noted`: see BorderLog."""
    append, now, end, border = noted.append, clock.now_ns, end_of(clock, name), Border(name, "range")

    class TimedRange:
        """`owner` is what an ExitStack passes: it calls the function that it finds on the type."""

        __slots__ = ()

        @staticmethod
        def __enter__(owner: object = None) -> None:
            append(border)
            append(now())

        @staticmethod
        def __exit__(kind: object, error: object, trace: object, owner: object = None) -> None:
            append(end())
            append(border)

    return TimedRange() if nvtx is None else TracedRange(TimedRange(), name, nvtx)


class TracedRange:
    """The same, while a tool listens: also an NVTX range, around it."""

    __slots__ = ("_name", "_nvtx", "_timed")

    def __init__(self, timed: AbstractContextManager[None], name: str, nvtx: NvtxRanges) -> None:
        self._timed = timed
        self._name = name
        self._nvtx = nvtx

    def __enter__(self) -> None:
        self._nvtx.push(self._name)
        self._timed.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._timed.__exit__(kind, error, trace)
        self._nvtx.leave(self._name)
