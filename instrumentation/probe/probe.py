"""The probe: host ranges, phase borders and step rows, noted as they happen and written into the ledger later."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Literal

from .api import DeviceMarks, F, PatientMarks
from .borders import MAX_CROSSINGS, BorderLog
from .calls import TimedCalls
from .ledger import Ledger
from .made import Made
from .native import NativeCalls, native, steps_of
from .notes import MANY_NOTES, NoteList, Notes
from .null import NULL_SCOPE, NullScope
from .nvtx_ranges import NvtxMode, open_ranges
from .phases import PendingPhases
from .ranges import NamedRange, ProbeClock, SilentRange, range_type
from .step import STEP_FIGURES, Step, StepFigures, TracedStep
from .timed_phase import SilentPhase, TimedPhase

__all__ = ["STEP_FIGURES", "Probe"]


class Probe:
    """Writes `spans` (host lane), `phases` and `steps` rows of one thread into `ledger`.

    clock    every host time is its; a range's end is `clock.leave(name)`, so that a declared clock advances there
    marks    the device's timing events; None, or level "host", takes none: the spans of the phases are null
    level    "events" takes a mark at either border of a phase; "host" leaves the device alone
    nvtx     "auto" opens NVTX ranges when a tool is attached, "on" always, "off" never
    lane     the lane of the host spans

    `warmup` is set by the loop and goes into the row of each step that begins after that.
    A range between two steps belongs to the step that ended last (None before the first); rows that others write
    between steps carry None, as the ledger says. Nothing here synchronises with a device.

    A probe follows one step at a time. A step that is open where the next one begins ends there; where its code runs on
    nevertheless, as tasks and threads that share a probe do, whatever was open meanwhile is incomplete. Rows are told
    apart by their step's number: one that does not rise is replaced by the next one that does.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: ProbeClock,
        *,
        marks: DeviceMarks | None = None,
        level: Literal["host", "events"] = "events",
        nvtx: NvtxMode = "auto",
        lane: str = "host:main",
    ) -> None:
        self.ledger = ledger
        self.warmup = False
        self._level = level
        self._marks = marks if level == "events" else None
        self._pending = PendingPhases(ledger, self._marks)
        self.now = clock.now_ns
        self.nvtx = nvtx_ranges = open_ranges(nvtx)
        # a clock that is another one, and a tool that listens, are Python's
        module = native() if self.now is time.perf_counter_ns and nvtx_ranges is None else None
        self.noted: Notes = NoteList() if module is None else module.Notes(ledger, MANY_NOTES)
        """What happened, and is no row yet; see BorderLog."""
        noted = self.noted
        self.language = "Python" if module is None else "C"
        """Of its calls: in C they take half of the time."""
        self._log = BorderLog(ledger, noted, lane, self._pending, self._scopes)
        self._cut: deque[Any] = deque(maxlen=MAX_CROSSINGS)  # steps that others ended; they may be left yet
        self._num_cut = self._num_mixed = self._renumbered = 0
        ledger.before_reading(self.resolve_pending)
        if isinstance(self._marks, PatientMarks):
            self._marks.while_waiting(self._pending.resolve)
        timed = range_type(noted, clock, nvtx_ranges)
        self._loud = (timed, TimedPhase)
        self._ranges = Made(timed)
        self._calls: TimedCalls | NativeCalls
        if module is None:
            self._calls = TimedCalls(noted, clock, self._marks, nvtx_ranges)
        else:
            self._calls = NativeCalls(module, noted, self._marks)
        self._phases = Made(lambda name: TimedPhase(name, noted, clock, self._marks, nvtx_ranges))
        self.phases: Callable[[str], AbstractContextManager[None]] = self._phases.__getitem__
        """Gives the shared object of a phase; callers go through the step's scope."""
        in_python = Step if nvtx_ranges is None else TracedStep
        self.step = partial(in_python, self) if module is None else steps_of(self)
        """`step(number)` gives a step; the number goes into every row that is written while it is open."""

    def range(self, name: str) -> AbstractContextManager[None]:
        """A sub-range, inside a step or between two. The object is shared by all uses of the name; ranges may nest."""
        return self._ranges[name]

    def timed(self, name: str, function: F) -> F:
        """`function`, each call of which is a sub-range. Raises TypeError where a call comes back before its work."""
        return self._calls.make(NamedRange(name), _done_when_back(name, function))

    def timed_phase(self, name: str, function: F) -> F:
        """`function`, each call of which is a phase. Raises TypeError as `timed` does."""
        return self._calls.make(NamedRange(name, "phase"), _done_when_back(name, function))

    def be_silent(self, silent: bool) -> None:
        """Between two steps: from now on ranges and phases note nothing, or do again. Steps always have their row.

        For measuring what they cost. Their objects are held by whoever enters them, so they change their class: a
        question asked in each use would cost everybody something, always. Of a timed function a call is left.
        """
        self._calls.be_silent(silent)
        range_class, phase_class = (SilentRange, SilentPhase) if silent else self._loud
        for scope in self._ranges.values():
            scope.__class__ = range_class  # type: ignore[assignment]
        for phase in self._phases.values():
            phase.__class__ = phase_class

    @property
    def scope(self) -> StepFigures | NullScope:
        """The open step; outside steps a scope that keeps nothing."""
        last: StepFigures | None = self.noted.last
        return last if last is not None and last.is_open else NULL_SCOPE

    @property
    def last_start_ns(self) -> int:
        """When the last step began; 0 before the first."""
        return 0 if self.noted.last is None else int(self.noted.last.start_ns)

    def _scopes(self) -> Iterator[NamedRange]:
        yield from self._ranges.values()
        yield from self._phases.values()

    def make_way(self, number: int) -> int:
        """Before a step begins: one that is still open ends, as incomplete, and rows are made of very many notes. The
        step's number: the one that it was given, if that rises.
        """
        self._end_open()
        if len(self.noted) > MANY_NOTES:
            self.resolve_pending()
        last = self.noted.last
        if last is None or number > last.number:
            return number
        self._renumbered += 1
        return int(last.number) + 1

    def _end_open(self) -> None:
        last = self.noted.last
        if last is not None and last.is_open:
            last.__exit__(RuntimeError, None, None)
            self._cut.append(last)
            self._num_cut += 1

    def left_late(self, step: Any, kind: type[BaseException] | None) -> None:
        """A step was left that had ended before: where `_end_open` did it, other steps ran into it meanwhile. A
        generator that is given up ran no further.
        """
        if kind is not GeneratorExit and any(step is one for one in self._cut):
            self._log.overlaps.append((step.end_ns, self.now()))
            self._num_mixed += 1

    def resolve_pending(self) -> None:
        """Make rows of what was noted, phases only as far as their marks are known by now. Never blocks."""
        self._log.settle()
        self._pending.resolve()

    def finish(self) -> None:
        """At the end of a run, after the device was synchronised: write everything that is still held back. A step that
        is open ends, as incomplete.
        """
        self._end_open()
        self._log.release()
        self._pending.give_up()

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for what this probe could not measure."""
        self.resolve_pending()
        notes: list[tuple[str, str, str]] = []
        if self._marks is None:
            why = "the probe ran at level host" if self._level == "host" else "the device has no timing events"
            notes.append(("phases", "span_ns", why))
        if self._pending.given_up:
            notes.append(("phases", "span_ns", f"{self._pending.given_up} phases: their device events never fired"))
        if self._renumbered:
            notes.append(("steps", "step", f"{self._renumbered} numbers did not rise: they are the next ones here"))
        if self._num_cut:
            why = "still open where the next one began or the run ended; they end there"
            notes.append(("steps", "rows", f"{self._num_cut} steps were {why}"))
        if self._num_mixed:
            why = "went on beside later ones, and their figures are mixed: a probe follows one step at a time"
            notes.append(("steps", "rows", f"{self._num_mixed} steps {why}"))
        for left, top in self._log.crossings:
            notes.append(("spans", "depth", f"range {left} was left while {top} was open inside it"))
        return tuple(notes)


def _done_when_back(name: str, function: F) -> F:
    """The function, if it has done its work when it comes back."""
    for one in (function, type(function).__call__):
        if iscoroutinefunction(one) or isgeneratorfunction(one) or isasyncgenfunction(one):
            raise TypeError(
                f"{name}: {getattr(function, '__qualname__', function)!s} is a coroutine or generator: its call comes "
                f"back before it works; put a `with` around where it is awaited or drawn from"
            )
    return function
