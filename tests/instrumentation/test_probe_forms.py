"""The probe in C and in Python: whatever is called in whatever order, both record the same."""

import random
from contextlib import suppress
from types import SimpleNamespace

import pytest
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.native import native
from stepscope.instrumentation.probe.step import STEP_FIGURES

from .probe_fakes import PHASES, FakeMarks

RANGES = ("build", "copy", "schedule")
ERRORS = (ValueError, KeyboardInterrupt, OSError)
AROUND = ("call", "call_phase", "use", "use_phase", "step", "caught")
ALONE = (
    "note", "note_later", "read", "take", "fail", "fire", "break_mark", "enter", "leave", "begin", "end", "hold",
    "arrive", "be_silent", "warm_up", "write",
)  # fmt: skip
TIMES = {"spans": (5, 6), "phases": (2,), "steps": (1, 2, 3 + STEP_FIGURES.index("latency_ns")), "waits": ()}


class BreakingMarks(FakeMarks):
    """Known as far as fired; the next one cannot be taken where the sequence says so."""

    def __init__(self):
        super().__init__(SimpleNamespace(time=0), known=0)
        self.breaks = False

    def mark(self):
        if self.breaks:
            self.breaks = False
            raise OSError("no event")
        return super().mark()


class Engine:
    """Does a sequence: (name of a method, its values); those of AROUND have a sequence within."""

    def __init__(self, probe, marks):
        self.probe, self.marks = probe, marks
        self.calls = {name: probe.timed(name, self.do) for name in RANGES}
        self.phases = {name: probe.timed_phase(name, self.do) for name in PHASES}
        self.entered, self.begun, self.held, self.taken = [], [], [], []

    def do(self, sequence):
        for name, *values in sequence:
            getattr(self, name)(*values)

    def call(self, at, sequence):
        self.calls[RANGES[at]](sequence)

    def call_phase(self, at, sequence):
        self.phases[PHASES[at]](sequence=sequence)

    def use(self, at, sequence):
        with self.probe.range(RANGES[at]):
            self.do(sequence)

    def use_phase(self, at, sequence):
        with self.probe.scope.phase(PHASES[at]):
            self.do(sequence)

    def step(self, at, sequence):
        with self.probe.step(at):
            self.do(sequence)

    def caught(self, at, sequence):
        with suppress(*ERRORS):
            self.do(sequence)

    def note(self, at):
        self.probe.scope.note(num_reqs=at)

    def note_later(self, at):
        self.probe.scope.note_later(lambda *values: {"num_tokens": len(values)}, *range(4 * at))

    def read(self, at):
        self.taken.append(len(self.probe.ledger.rows[("spans", "phases", "steps")[at]]))

    def take(self, at):
        self.taken.append(without_times(self.probe.ledger.take()))

    def fail(self, at):
        raise ERRORS[at]("planted")

    def fire(self, at):
        self.marks.known += 4 * at

    def break_mark(self, at):
        self.marks.breaks = True

    def enter(self, at):
        self.entered.append(self.probe.range(RANGES[at]))
        self.entered[-1].__enter__()

    def leave(self, at):
        if len(self.entered) > at:
            self.entered.pop(at).__exit__(None, None, None)

    def begin(self, at):
        self.begun.append(self.probe.step(at))
        self.begun[-1].__enter__()

    def end(self, at):
        if len(self.begun) > at:
            self.begun.pop(at).__exit__(ValueError if at else None, None, None)

    def hold(self, at):
        self.held.append(self.probe.scope.late())

    def arrive(self, at):
        if len(self.held) > at:
            with self.held.pop(at):
                self.call(at, [("note", at)])

    def be_silent(self, at):
        self.probe.be_silent(at == 0)

    def warm_up(self, at):
        self.probe.warmup = at == 0

    def write(self, at):
        self.probe.ledger.add("waits", at)


def without_times(rows):
    """Of a time only whether there is one."""

    def plain(row, times):
        return tuple(value is not None if at in times else value for at, value in enumerate(row))

    return {table: [plain(row, times) for row in rows[table]] for table, times in TIMES.items()}


def some_sequence(rng, depth=0):
    made = []
    for _ in range(rng.randint(0, 6 - depth) + (depth == 0) * 20):
        if rng.random() < 0.5 and depth < 4:
            made.append((rng.choice(AROUND), rng.randrange(3), some_sequence(rng, depth + 1)))
        else:
            made.append((rng.choice(ALONE), rng.randrange(3)))
    return made


def recorded(monkeypatch, form, sequence):
    """All that can be seen of a sequence but its times."""
    monkeypatch.setattr(probe_module, "native", form)
    marks = BreakingMarks()
    probe = Probe(Ledger(), MonotonicClock(), marks=marks, nvtx="off")
    engine = Engine(probe, marks)
    for each in sequence:
        engine.caught(0, [each])
    marks.known = len(marks.taken)
    probe.finish()
    return engine.taken, without_times(probe.ledger.rows), probe.diagnostics(), len(marks.taken)


@pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_is_recorded_alike(monkeypatch, seed):
    sequence = some_sequence(random.Random(seed))
    assert recorded(monkeypatch, native, sequence) == recorded(monkeypatch, lambda: None, sequence)
