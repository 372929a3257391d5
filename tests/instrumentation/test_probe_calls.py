"""Functions of which each call is a range or a phase: the same rows as with `with`, nothing where nobody times."""

import gc
import traceback
import weakref
from contextlib import nullcontext
from functools import partial

import pytest
from stepscope.instrumentation.probe import Ledger, NullProbe, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.nvtx_ranges import open_ranges

from .probe_fakes import PHASES, FakeMarks, TickingClock, run_step, spans
from .test_nvtx import FakeNvtx


class CalledStep:
    """The step of `run_step`, with functions in the place of `with`."""

    def __init__(self, probe):
        self.probe = probe
        self.fail_in = None
        self.inner = {name: probe.timed(f"{name}.inner", self.work) for name in PHASES}
        self.phases = {name: probe.timed_phase(name, self.inner[name]) for name in PHASES}

    def work(self, name, value):
        if name == self.fail_in:
            raise RuntimeError("planted")
        return value

    def run(self, number, fail_in=None):
        self.fail_in = fail_in
        with self.probe.step(number):
            return [phase(name, number) for name, phase in self.phases.items()]


class Plain(TickingClock):
    """A clock whose ends are plain readings, as a measured clock's are."""

    plain = True


def rows_of(clock, run, marks, *, fail_in=None):
    ledger = Ledger()
    probe = Probe(ledger, clock, marks=FakeMarks(clock) if marks else None)
    step = run(probe)
    for number in range(3):
        with pytest.raises(RuntimeError, match="planted") if number == 1 and fail_in else nullcontext():
            step(number, fail_in if number == 1 else None)
    probe.finish()
    return {name: ledger.rows[name] for name in ("steps", "phases", "spans")}


@pytest.mark.parametrize("clock", [Plain, lambda: TickingClock(**{"forward.inner": 7, "forward": 100})])
@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("fail_in", [None, "forward", "sample"])
def test_the_rows_are_those_of_a_with(clock, marks, fail_in):
    by_with = rows_of(clock(), lambda probe: lambda number, fail: run_step(probe, number, fail), marks, fail_in=fail_in)
    by_call = rows_of(clock(), lambda probe: CalledStep(probe).run, marks, fail_in=fail_in)
    assert by_call == by_with
    assert [row[-1] for row in by_call["steps"]] == [True, fail_in is None, True]


def test_values_go_in_and_out():
    step = CalledStep(Probe(Ledger(), TickingClock()))
    assert step.run(3) == [3, 3, 3]


def test_the_null_probe_hands_the_function_back():
    def function():
        return 1

    assert NullProbe().timed("a", function) is function
    assert NullProbe().timed_phase("a", function) is function


def test_calls_nest_and_lie_between_steps():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    inner = probe.timed("inner", lambda: None)
    outer = probe.timed("outer", lambda: (inner(), inner()))
    outer()
    with probe.step(4):
        inner()
    outer()
    assert spans(ledger) == [
        (None, "inner", "range", 1, 20, 30), (None, "inner", "range", 1, 40, 50), (None, "outer", "range", 0, 10, 60),
        (4, "inner", "range", 0, 80, 90),
        (4, "inner", "range", 1, 120, 130), (4, "inner", "range", 1, 140, 150), (4, "outer", "range", 0, 110, 160),
    ]  # fmt: skip


def test_a_reader_within_a_step_does_not_spoil_depths():
    # GIVEN a call that is read in its middle, when nobody has noted yet that it lies around what was noted before
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    inner = probe.timed("inner", lambda: None)
    read = []
    outer = probe.timed_phase("forward", lambda: (inner(), read.append(len(ledger.rows["spans"])), inner()))
    with probe.step(0):
        outer()
    # THEN the open step's rows are made when it has ended
    assert read == [0]
    assert [(row[2], row[4]) for row in ledger.rows["spans"]] == [("inner", 1), ("inner", 1), ("forward", 0)]


def test_silent_calls_note_nothing_and_still_do_their_work():
    ledger = Ledger()
    clock = TickingClock()
    probe = Probe(ledger, clock, marks=FakeMarks(clock))
    step = CalledStep(probe)
    for number, silent in enumerate((False, True, False)):
        probe.be_silent(silent)
        assert step.run(number) == [number] * 3
    probe.finish()
    assert [row[0] for row in ledger.rows["phases"]] == [0, 0, 0, 2, 2, 2]
    assert [row[0] for row in ledger.rows["steps"]] == [0, 1, 2]
    assert len(ledger.rows["spans"]) == 12


def test_a_probe_does_not_keep_alive_what_it_timed():
    class Stage:
        def work(self):
            return 1

    probe, stage = Probe(Ledger(), TickingClock()), Stage()
    gone, call = weakref.ref(stage), probe.timed("work", stage.work)
    assert call() == 1
    del stage, call
    gc.collect()
    assert gone() is None
    probe.be_silent(True)


@pytest.mark.parametrize("silent", [False, True])
def test_a_tool_sees_calls_as_ranges_of_depth_0_at_the_end(monkeypatch, silent):
    nvtx = FakeNvtx()
    monkeypatch.setattr(probe_module, "open_ranges", lambda mode: open_ranges(mode, nvtx))
    step = CalledStep(Probe(Ledger(), TickingClock(), nvtx="on"))
    step.probe.be_silent(silent)
    step.run(0)
    with pytest.raises(RuntimeError, match="planted"):
        step.run(1, fail_in="forward")
    assert nvtx.domain.depth == 0
    inner = [pair for name in PHASES for pair in ((1, name), (2, f"{name}.inner"))]
    assert nvtx.domain.names == ([(0, "step")] * 2 if silent else [(0, "step"), *inner, (0, "step"), *inner[:4]])


class Arities:
    def none(self):
        return ()

    def two(self, first, second):
        return first, second

    def optional(self, first, second=2):
        return first, second


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (Arities().none, ()), (Arities().two, (1, 2)), (Arities.two, (None, 1, 2)), (Arities().optional, (1,)),
        (lambda *values: values, (1, 2, 3)), (partial(Arities().two, 1), (5,)), (divmod, (7, 2)), (max, (3, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", ["timed", "timed_phase"])
@pytest.mark.parametrize("clock", [Plain, TickingClock])
def test_any_function_gets_the_values_it_takes(function, values, make, clock):
    probe = Probe(Ledger(), clock(), marks=FakeMarks(clock()))
    call = getattr(probe, make)("a", function)
    assert call(*values) == function(*values)
    probe.be_silent(True)
    assert call(*values) == function(*values)
    assert [row[2] for row in probe.ledger.rows["spans"]] == ["a"]


def test_a_function_of_two_values_takes_no_third():
    with pytest.raises(TypeError, match="3 were given"):
        Probe(Ledger(), Plain()).timed("a", lambda one, two: None)(1, 2, 3)


def test_a_traceback_shows_the_call():
    call = Probe(Ledger(), Plain()).timed("a", lambda value: 1 / value)
    with pytest.raises(ZeroDivisionError) as caught:
        call(0)
    assert "result = function(value)" in "".join(traceback.format_exception(caught.value))
