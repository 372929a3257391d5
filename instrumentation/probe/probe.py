"""The probe: host ranges, phase borders and step rows, written into the ledger as they end."""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from .api import DeviceMarks, PatientMarks
from .late import HeldRows, LateTokens
from .ledger import Ledger
from .null import NULL_SCOPE, NullScope
from .nvtx_ranges import NvtxMode, open_ranges
from .phases import AT_ONCE, PendingPhases, TimedPhase
from .ranges import ProbeClock, RangeStack, TimedRange, TracedRange

STEP_FIGURES = (
    "period_ns", "latency_ns", "host_busy_ns", "host_wait_ns", "num_reqs", "num_tokens", "padded_tokens", "padded_reqs",
    "kv_tokens_sum", "kv_tokens_max", "num_prefill", "num_decode", "num_new", "num_finished", "num_resumed",
    "num_preempted", "num_moved_rows", "batch_overlap", "num_syncs", "num_launches", "num_h2d",
)
"""What `note` takes: columns of `steps` between the times and the flags, in the schema's order (a test compares)."""

_UNSET = -1  # latency that nobody noted; no true latency is negative
_NOTHING_NOTED: dict[str, int | float | bool | None] = {**dict.fromkeys(STEP_FIGURES), "latency_ns": _UNSET}


class Step:
    """One step while it runs (the probe's StepScope). Each step gets its own."""

    __slots__ = ("_figures", "_late", "_number", "_open", "_probe", "_start_ns", "_warmup")
    keeps_figures = True

    def __init__(self, probe: Probe, number: int) -> None:
        self._probe = probe
        self._number = number
        self._late: LateTokens | None = None
        self._figures = _NOTHING_NOTED.copy()  # holds every column from the start: its values are the row, in order

    def phase(self, name: str) -> TimedPhase:
        """A phase of this step: preprocess, forward or sample."""
        return self._probe.timed_phase(name)

    def note(self, **figures: int | float | bool | None) -> None:
        """Figures for the step's row; a name that `steps` does not have is our own mistake."""
        self._figures.update(figures)
        assert len(self._figures) == len(STEP_FIGURES), f"no such column in steps, one of {sorted(figures)}"

    def late(self) -> LateTokens:
        """Hold this step's row back until its tokens have come back (see `LateTokens`)."""
        self._late = self._probe.late_tokens(self._start_ns)
        return self._late

    def __enter__(self) -> Step:
        self._warmup = self._probe.warmup
        self._open = True
        self._start_ns = self._probe.open_step(self, self._number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.close(complete=kind is None)

    def close(self, *, complete: bool) -> None:
        """Write the row and leave the probe outside steps.

        latency_ns is the step's own duration unless it was noted (a later hand-off of the tokens makes it longer);
        null for a step that never finished.
        """
        self._open = False
        end_ns = self._probe.close_step()
        figures, late = self._figures, self._late
        times, behind = (self._number, self._start_ns, end_ns), (self._warmup, complete)
        if figures["latency_ns"] == _UNSET:
            figures["latency_ns"] = end_ns - self._start_ns if complete and late is None else None
        if late is None:
            self._probe.held.write((*times, *figures.values(), *behind))
        else:
            late.hold(times, figures, behind)


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
        self._resolves = self._marks is not None
        if isinstance(self._marks, PatientMarks):
            self._marks.while_waiting(self._pending.resolve)
            self._resolves = False
        self._stack = RangeStack(ledger, clock, lane, open_ranges(nvtx))
        self._range_type = TimedRange if self._stack.nvtx is None else TracedRange
        self._step: Step | None = None
        self.held = HeldRows(ledger)
        self.last_start_ns = 0
        """Start of the step that was opened last."""
        self._ranges: dict[str, TimedRange] = {}
        self._phases: dict[str, TimedPhase] = {}

    def step(self, number: int) -> Step:
        """A step; `number` goes into every row that is written while it is open."""
        return Step(self, number)

    def range(self, name: str) -> TimedRange:
        """A sub-range, inside a step or between two. The object is shared by all uses of the name; ranges may nest."""
        try:
            return self._ranges[name]
        except KeyError:
            return self._ranges.setdefault(name, self._range_type(self._stack, name))

    def timed_phase(self, name: str) -> TimedPhase:
        """The shared object of a phase; callers go through the step's scope."""
        try:
            return self._phases[name]
        except KeyError:
            return self._phases.setdefault(name, TimedPhase(self._stack, name, self._marks, self._pending))

    def late_tokens(self, start_ns: int) -> LateTokens:
        """For a step that began at `start_ns`; callers go through the step's scope."""
        return LateTokens(self._stack, self.held, start_ns)

    @property
    def scope(self) -> Step | NullScope:
        """The open step; outside steps a scope that keeps nothing."""
        return NULL_SCOPE if self._step is None else self._step

    def open_step(self, step: Step, number: int) -> int:
        """Begin `step` and return its start. A step that is still open is closed first, as incomplete."""
        if self._step is not None:
            self._step.close(complete=False)
        if self._resolves:
            self._pending.resolve(AT_ONCE)
        stack = self._stack
        self.ledger.step = stack.step = number
        self._step = step
        stack.floor = len(stack.open)
        if stack.nvtx is not None:
            stack.nvtx.push("step")
        self.last_start_ns = start_ns = stack.now()
        return start_ns

    def close_step(self) -> int:
        """End the open step: close what was left open, leave the ledger outside steps, return the end."""
        stack = self._stack
        end_ns = stack.now()
        if len(stack.open) > stack.floor:
            stack.close_to_floor(end_ns)
        if stack.nvtx is not None:
            stack.nvtx.pop()
        stack.floor = 0
        self.ledger.step = None
        self._step = None
        return end_ns

    def resolve_pending(self) -> None:
        """Turn the marks that are known by now into `phases` rows. Never blocks."""
        self._pending.resolve()

    def finish(self) -> None:
        """At the end of a run, after the device was synchronised: write every phase and step still held back."""
        self._pending.give_up()
        self.held.give_up()

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for what this probe could not measure."""
        notes: list[tuple[str, str, str]] = []
        if self._marks is None:
            why = "the probe ran at level host" if self._level == "host" else "the device has no timing events"
            notes.append(("phases", "span_ns", why))
        if self._pending.given_up:
            notes.append(("phases", "span_ns", f"{self._pending.given_up} phases: their device events never fired"))
        for left, top in self._stack.crossings:
            notes.append(("spans", "depth", f"range {left} was left while {top} was open inside it"))
        return tuple(notes)
