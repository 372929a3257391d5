"""Functions of which each call is a range.

The cheapest way to time a stage: it costs one frame, where `with` costs two, and where nobody times, the function is
handed back as it came and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast
from weakref import WeakSet

from .api import F
from .nvtx_ranges import NvtxRanges
from .ranges import NamedRange, ProbeClock

Twins = tuple[Callable[..., Any], Callable[..., Any]]
"""A timed function, and the same without a note. They close over the same variables."""


class TimedCalls:
    """The timed functions of one probe. `noted`: see BorderLog."""

    def __init__(self, noted: list[Any], clock: ProbeClock, nvtx: NvtxRanges | None) -> None:
        self._append = noted.append
        self._clock = clock
        self._nvtx = nvtx
        self._codes: tuple[CodeType, CodeType] | None = None  # loud, silent: the same for all
        self._calls: WeakSet[FunctionType] = WeakSet()

    def make(self, scope: NamedRange, function: F) -> F:
        """`function` with the note that each of its calls leaves behind; for positional arguments.

        `scope` is what is noted. It is never open: a call begins and ends within itself, also by an exception.
        """
        now = self._clock.now_ns
        end = now if getattr(self._clock, "plain", False) else partial(self._clock.leave, scope.name)
        if self._nvtx is None:
            twins = _timed(function, scope, self._append, now, end)
        else:
            twins = _traced(function, scope, self._append, now, end, self._nvtx)
        loud, silent = (cast(FunctionType, twin) for twin in twins)
        self._codes = loud.__code__, silent.__code__
        self._calls.add(loud)
        return cast(F, loud)

    def be_silent(self, silent: bool) -> None:
        """From now on calls note nothing, or do again. Whoever calls them holds the function, so its code changes; what
        is left is one frame around the function.
        """
        if self._codes is not None:
            code = self._codes[silent]
            for call in self._calls:
                call.__code__ = code


# The variables of a timed function are cells of its own, and not attributes of an object: in a real step each call
# meets cold caches, and a look-up costs more than the clock. `nonlocal` gives its twin the same cells.


def _timed(
    function: Callable[..., Any], scope: NamedRange, append: Callable[[Any], None],
    now: Callable[[], int], end: Callable[[], int],
) -> Twins:  # fmt: skip
    def call(*values: Any) -> Any:
        start_ns = now()
        try:
            return function(*values)
        finally:
            append((scope, start_ns, end()))

    def silent(*values: Any) -> Any:
        nonlocal append, end, now, scope
        return function(*values)

    return call, silent


def _traced(
    function: Callable[..., Any], scope: NamedRange, append: Callable[[Any], None],
    now: Callable[[], int], end: Callable[[], int], nvtx: NvtxRanges,
) -> Twins:  # fmt: skip
    """The same, while a tool listens: also an NVTX range, around it."""
    timed, _ = _timed(function, scope, append, now, end)

    def call(*values: Any) -> Any:
        nonlocal function
        nvtx.push(scope.name)
        try:
            return timed(*values)
        finally:
            nvtx.leave(scope.name)

    def silent(*values: Any) -> Any:
        nonlocal nvtx, scope, timed
        return function(*values)

    return call, silent
