"""Phases of a step: timed ranges with a device mark at either border."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any

from .api import DeviceMarks
from .notes import Notes
from .nvtx_ranges import NvtxRanges
from .ranges import NamedRange, ProbeClock


class TimedPhase(NamedRange):
    """A named phase: a range with marks. Phases do not nest, so the begin mark of the one use lies in the object.

    Between the reading of one phase's end and the next one's start the host does nothing that can be done elsewhere:
    what passes there belongs to no phase, and phases have to close to the period.
    """

    __slots__ = ("_append", "_begin_mark", "_end", "_is_plain", "_mark", "_now", "_nvtx")

    def __init__(
        self, name: str, noted: Notes, clock: ProbeClock, marks: DeviceMarks | None, nvtx: NvtxRanges | None
    ) -> None:
        super().__init__(name, "phase")
        self._append = noted.append
        self._now = clock.now_ns
        self._is_plain = getattr(clock, "plain", False)
        self._end = clock.now_ns if self._is_plain else partial(clock.leave, name)
        self._mark = None if marks is None else marks.mark
        self._nvtx = nvtx
        self._begin_mark: Any = None

    def __enter__(self) -> None:
        if self._nvtx is not None:
            self._nvtx.push(self.name)
        self.start_ns = self._now()
        if self._mark is not None:
            self._begin_mark = self._mark()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the use, with its marks.

        A declared clock advances before the end mark, because the event has to lie behind the phase's own host time;
        the host end is read after the mark, so that the mark's cost counts as the phase's. A phase that an exception
        leaves gets no end mark and no figures, yet keeps its row: it counts as incomplete.
        """
        if self._mark is None or kind is not None:
            end_ns, end_mark = self._end(), None
        else:
            if not self._is_plain:
                self._end()
            end_mark = self._mark()
            end_ns = self._now()
        self._append((self, self.start_ns, end_ns, self._begin_mark, end_mark, kind is None))
        self.start_ns = None
        if self._nvtx is not None:
            self._nvtx.leave(self.name)


class SilentPhase(TimedPhase):
    """What a phase becomes while its probe is silent: no times, no marks."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
