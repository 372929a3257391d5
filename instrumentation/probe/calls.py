"""Functions of which each call is a range or a phase, in Python; `hot_path.c` has them without a frame.

The cheapest way to time a stage: it costs one frame, where `with` costs two, and where nobody times, the function is
handed back as it came and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

from .api import DeviceMarks, F
from .call_forms import Forms, Function, Twins
from .notes import Notes
from .nvtx_ranges import NvtxRanges
from .ranges import NamedRange, ProbeClock

Append = Callable[[Any], None]
Now = Callable[[], int]
Mark = Callable[[], Any]
Wrap = Callable[[Function, NamedRange], Twins]


class TimedCalls:
    """The timed functions of one probe. `noted`: see BorderLog. `marks`: None where phases take none."""

    def __init__(
        self, noted: Notes, clock: ProbeClock, marks: DeviceMarks | None, nvtx: NvtxRanges | None
    ) -> None:
        append, now, mark = noted.append, clock.now_ns, None if marks is None else marks.mark
        self._time: Wrap
        self._mark: Wrap
        if getattr(clock, "plain", False):
            forms = Forms(append, now, mark)
            self._time, self._mark = partial(forms.wrap, marked=False), partial(forms.wrap, marked=mark is not None)
        else:
            self._time = _declared(append, now, clock.leave)
            self._mark = self._time if mark is None else _declared_marks(append, now, clock.leave, mark)
        self._nvtx = nvtx
        self._codes: WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]] = WeakKeyDictionary()

    def make(self, scope: NamedRange, function: F) -> F:
        """`function` with the note that each of its calls leaves behind; called as it is itself.

        `scope` is what is noted. It is never open: a call begins and ends within itself, also by an exception.
        """
        wrap = self._mark if scope.kind == "phase" else self._time
        twins = wrap(function, scope)
        if self._nvtx is not None:
            twins = _traced(twins, scope.name, self._nvtx)
        loud, silent = (cast(FunctionType, twin) for twin in twins)
        self._codes[loud] = loud.__code__, silent.__code__
        return cast(F, loud)

    def be_silent(self, silent: bool) -> None:
        """From now on calls note nothing, or do again. Whoever calls them holds the function, so its code changes; what
        is left is one frame around the function.
        """
        for call, codes in self._codes.items():
            call.__code__ = codes[silent]


def _declared(append: Append, now: Now, leave: Callable[[str], int]) -> Wrap:
    """For a clock that advances at the end of a range."""

    def wrap(function: Function, scope: NamedRange) -> Twins:
        def call(*values: Any, **names: Any) -> Any:
            start_ns, whole = now(), False
            try:
                result = function(*values, **names)
                whole = True
            finally:
                append((scope, start_ns, leave(scope.name), None, None, whole))
            return result

        def silent(*values: Any, **names: Any) -> Any:
            nonlocal append, leave, now, scope
            return function(*values, **names)

        return call, silent

    return wrap


def _declared_marks(append: Append, now: Now, leave: Callable[[str], int], mark: Mark) -> Wrap:
    """The same for a phase with a device mark at either border.

    The clock advances (`leave`) before the end mark, because the event has to lie behind the phase's own host time; the
    host end is read after the mark, so that the mark's cost counts as the phase's. A phase that an exception leaves
    gets no end mark and no figures, yet keeps its row: it counts as incomplete.
    """

    def wrap(function: Function, scope: NamedRange) -> Twins:
        def call(*values: Any, **names: Any) -> Any:
            start_ns = now()
            begin = mark()
            try:
                result = function(*values, **names)
            except BaseException:
                append((scope, start_ns, leave(scope.name), begin, None, False))
                raise
            leave(scope.name)
            end = mark()
            append((scope, start_ns, now(), begin, end, True))
            return result

        def silent(*values: Any, **names: Any) -> Any:
            nonlocal append, leave, mark, now, scope
            return function(*values, **names)

        return call, silent

    return wrap


def _traced(twins: Twins, name: str, nvtx: NvtxRanges) -> Twins:
    """The same, while a tool listens: also an NVTX range, around it."""
    loud, quiet = twins

    def call(*values: Any, **names: Any) -> Any:
        nonlocal quiet
        nvtx.push(name)
        try:
            return loud(*values, **names)
        finally:
            nvtx.leave(name)

    def silent(*values: Any, **names: Any) -> Any:
        nonlocal loud, name, nvtx
        return quiet(*values, **names)

    return call, silent
