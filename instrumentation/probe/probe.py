"""The probe: host ranges, phase borders and step rows, noted as they happen and written into the ledger later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Literal

from .api import DeviceMarks, F, PatientMarks
from .borders import BorderLog
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
        """`function`, each call of which is a sub-range."""
        return self._calls.make(NamedRange(name), function)

    def timed_phase(self, name: str, function: F) -> F:
        """`function`, each call of which is a phase."""
        return self._calls.make(NamedRange(name, "phase"), function)

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

    def make_way(self) -> None:
        """Before a step begins: one that is still open ends, as incomplete, and rows are made of very many notes."""
        if self.noted.last is not None and self.noted.last.is_open:
            self.noted.last.__exit__(RuntimeError, None, None)
        if len(self.noted) > MANY_NOTES:
            self.resolve_pending()

    def resolve_pending(self) -> None:
        """Make rows of what was noted, phases only as far as their marks are known by now. Never blocks."""
        self._log.settle()
        self._pending.resolve()

    def finish(self) -> None:
        """At the end of a run, after the device was synchronised: write everything that is still held back."""
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
        for left, top in self._log.crossings:
            notes.append(("spans", "depth", f"range {left} was left while {top} was open inside it"))
        return tuple(notes)
