"""Timed host ranges.

In a real step each call meets cold caches, so what counts is how little memory it touches: the functions are shared by
all ranges of a probe, a use costs one tuple and one append, nothing is looked up and no row made.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from .notes import Notes
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


class NamedRange:
    """A named range that may be entered again while it is open; `outer` then holds the starts of the outer uses."""

    __slots__ = ("kind", "name", "outer", "start_ns")

    def __init__(self, name: str, kind: str = "range") -> None:
        self.name = name
        self.kind = kind
        self.start_ns: int | None = None
        self.outer: list[int] | None = None

    def suspend(self, start_ns: int) -> None:
        """Keep the start of a use inside which another one begins."""
        if self.outer is None:
            self.outer = []
        self.outer.append(start_ns)

    def resume(self) -> int | None:
        """The start of the use that goes on; None when that was the outermost."""
        return self.outer.pop() if self.outer else None

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SilentRange(NamedRange):
    """What a range becomes while its probe is silent: the same object, whose class notes nothing."""

    __slots__ = ()


def range_type(noted: Notes, clock: ProbeClock, nvtx: NvtxRanges | None) -> Callable[[str], NamedRange]:
    """What makes the ranges of one probe. `noted`: see BorderLog."""
    timed = _plain(noted, clock) if getattr(clock, "plain", False) else _declared(noted, clock)
    return timed if nvtx is None else _traced(timed, nvtx)


def _plain(noted: Notes, clock: ProbeClock) -> type[NamedRange]:
    append, now = noted.append, clock.now_ns

    class PlainRange(NamedRange):
        __slots__ = ()

        def __enter__(self) -> None:
            if self.start_ns is not None:
                self.suspend(self.start_ns)
            self.start_ns = now()

        def __exit__(self, kind: object, error: object, trace: object) -> None:
            append((self, self.start_ns, now()))
            self.start_ns = None if self.outer is None else self.resume()

    return PlainRange


def _declared(noted: Notes, clock: ProbeClock) -> type[NamedRange]:
    append, now, leave = noted.append, clock.now_ns, clock.leave

    class DeclaredRange(NamedRange):
        __slots__ = ()

        def __enter__(self) -> None:
            if self.start_ns is not None:
                self.suspend(self.start_ns)
            self.start_ns = now()

        def __exit__(self, kind: object, error: object, trace: object) -> None:
            append((self, self.start_ns, leave(self.name)))
            self.start_ns = None if self.outer is None else self.resume()

    return DeclaredRange


def _traced(timed: type[NamedRange], nvtx: NvtxRanges) -> type[NamedRange]:
    """The same, while a tool listens: also an NVTX range, around it."""

    class TracedRange(timed):  # type: ignore[valid-type, misc]
        __slots__ = ()

        def __enter__(self) -> None:
            nvtx.push(self.name)
            timed.__enter__(self)

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            timed.__exit__(self, kind, error, trace)
            nvtx.leave(self.name)

    return TracedRange
