"""The probe: host ranges, phase borders and step rows, written into the ledger as they end."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Protocol

from .api import DeviceMarks
from .ledger import Ledger
from .marks import PendingPhases, PhaseRecord
from .null import NULL_SCOPE, NullScope
from .nvtx_ranges import NvtxMode, open_ranges
from .ranges import RangeStack, TimedRange

STEP_FIGURES = (
    "period_ns", "latency_ns", "host_busy_ns", "host_wait_ns", "num_reqs", "num_tokens", "padded_tokens", "padded_reqs",
    "kv_tokens_sum", "kv_tokens_max", "num_prefill", "num_decode", "num_new", "num_finished", "num_resumed",
    "num_preempted", "num_moved_rows", "batch_overlap", "num_syncs", "num_launches", "num_h2d",
)  # fmt: skip
"""What `note` takes: the columns of `steps` between the times and the flags, in the schema's order (a test compares)."""

_NOTABLE = frozenset(STEP_FIGURES)


class ProbeClock(Protocol):
    """The part of a clock that the probe uses; the probe imports nothing of ours."""

    def now_ns(self) -> int:
        """Time now, in ns."""
        ...

    def leave(self, name: str) -> int:
        """Time at the end of the range `name`; a declared clock first advances by that range's cost."""
        ...


class _Phase:
    """A phase while it runs: a timed range with a device mark at either border."""

    __slots__ = ("_probe", "_range", "_record")

    def __init__(self, probe: Probe, name: str, step: int) -> None:
        self._probe = probe
        self._range = probe.timed(name, "phase")
        self._record = PhaseRecord(step, name)

    def __enter__(self) -> None:
        self._range.__enter__()
        marks = self._probe.marks
        if marks is not None:
            self._record.begin_mark = marks.mark()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A phase that an exception leaves gets no end mark and no figures, yet keeps its row: it counts as incomplete.
        duration_ns = self._range.close(self._probe.marks if kind is None else None)
        record = self._record
        if kind is None:
            record.host_ns = duration_ns
            record.end_mark = self._range.last_mark
        self._probe.pending.add(record)


class Step:
    """One step while it runs (the probe's StepScope). Reused by nobody: each step gets its own."""

    __slots__ = ("_closed", "_figures", "_number", "_probe", "_start_ns", "_warmup")

    def __init__(self, probe: Probe, number: int) -> None:
        self._probe = probe
        self._number = number
        self._figures: dict[str, int | float | bool | None] = {}
        self._start_ns = 0
        self._warmup = probe.warmup
        self._closed = False

    def phase(self, name: str) -> _Phase:
        """A phase of this step: preprocess, forward or sample."""
        return _Phase(self._probe, name, self._number)

    def note(self, **figures: int | float | bool | None) -> None:
        """Figures for the step's row; a name that `steps` does not have is our own mistake."""
        assert figures.keys() <= _NOTABLE, f"no such column in steps: {sorted(figures.keys() - _NOTABLE)}"
        self._figures.update(figures)

    def __enter__(self) -> Step:
        self._start_ns = self._probe.open_step(self, self._number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(complete=kind is None)

    def close(self, *, complete: bool) -> None:
        """Write the row and leave the probe outside steps. The second call does nothing."""
        if self._closed:
            return
        self._closed = True
        end_ns = self._probe.close_step()
        figures = self._figures
        if complete and "latency_ns" not in figures:
            figures["latency_ns"] = end_ns - self._start_ns
        self._probe.ledger.rows["steps"].append((
            self._number, self._start_ns, end_ns, *map(figures.get, STEP_FIGURES), self._warmup, complete,
        ))


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
        self.marks = marks if level == "events" else None
        self.pending = PendingPhases(ledger, self.marks)
        self.stack = RangeStack(ledger, clock, lane, open_ranges(nvtx))
        self._level = level
        self._now = clock.now_ns
        self._step: Step | None = None
        self._ranges: dict[str, TimedRange] = {}
        self._phases: dict[str, TimedRange] = {}

    def step(self, number: int) -> Step:
        """A step; `number` goes into every row that is written while it is open."""
        return Step(self, number)

    def range(self, name: str) -> TimedRange:
        """A sub-range, inside a step or between two. The object is shared by all uses of the name; ranges may nest."""
        found = self._ranges.get(name)
        if found is None:
            found = self._ranges[name] = TimedRange(self.stack, name, "range")
        return found

    def timed(self, name: str, kind: Literal["phase", "range"]) -> TimedRange:
        """The shared range object of a phase or a sub-range."""
        if kind == "range":
            return self.range(name)
        found = self._phases.get(name)
        if found is None:
            found = self._phases[name] = TimedRange(self.stack, name, "phase")
        return found

    @property
    def scope(self) -> Step | NullScope:
        """The open step; outside steps a scope that keeps nothing."""
        return NULL_SCOPE if self._step is None else self._step

    def open_step(self, step: Step, number: int) -> int:
        """Begin `step` and return its start. A step that is still open is closed first, as incomplete."""
        if self._step is not None:
            self._step.close(complete=False)
        self.pending.resolve()
        self.ledger.step = self.stack.step = number
        self._step = step
        self.stack.enter_step()
        return self._now()

    def close_step(self) -> int:
        """End the open step: close what was left open, leave the ledger outside steps, return the end."""
        end_ns = self.stack.leave_step()
        self.ledger.step = None
        self._step = None
        return end_ns

    def resolve_pending(self) -> None:
        """Turn the marks that are known by now into `phases` rows. Never blocks."""
        self.pending.resolve()

    def finish(self) -> None:
        """At the end of a run, after the device was synchronised: write every phase that is still held back."""
        self.pending.give_up()

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for what this probe could not measure."""
        notes: list[tuple[str, str, str]] = []
        if self.marks is None:
            why = "the probe ran at level host" if self._level == "host" else "the device has no timing events"
            notes.append(("phases", "span_ns", why))
        if self.pending.given_up:
            notes.append(("phases", "span_ns", f"{self.pending.given_up} phases: their device events never fired"))
        for left, top in self.stack.crossings:
            notes.append(("spans", "depth", f"range {left} was left while {top} was open inside it"))
        return tuple(notes)
