"""The timed calls in C: what Python's note, from any function, with exceptions, collected when nobody holds them."""

import ctypes
import gc
import sys
import time
import weakref
from collections import deque
from functools import partial
from types import SimpleNamespace

import pytest
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.native import native
from stepscope.instrumentation.probe.step import STEP_FIGURES

from .probe_fakes import FakeMarks
from .test_probe_calls import Arities, CalledStep

needs_compiler = pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
TP_CLEAR = 51  # in CPython's typeslots.h


class Marks(FakeMarks):
    def __init__(self):
        super().__init__(type("Nothing", (), {"time": 0})())


def make(monkeypatch, way, marks=None):
    monkeypatch.setattr(probe_module, "native", {"native": native, "python": lambda: None}[way])
    return Probe(Ledger(), MonotonicClock(), marks=marks, nvtx="off")


def rows_without_times(probe):
    probe.finish()
    rows = probe.ledger.rows
    for _, _, _, _, _, start_ns, end_ns, _, _ in rows["spans"]:
        assert 0 < start_ns <= end_ns <= time.perf_counter_ns()
    phases = [(step, name, host is None, *rest) for step, name, host, *rest in rows["phases"]]
    return [row[:5] for row in rows["spans"]], phases, [(row[0], row[-1]) for row in rows["steps"]]


def three_steps(probe):
    step = CalledStep(probe)
    step.run(0)
    with pytest.raises(RuntimeError, match="planted"):
        step.run(1, fail_in="forward")
    with probe.range("between"):
        probe.timed("alone", lambda: None)()
    step.run(2)
    return rows_without_times(probe)


@needs_compiler
@pytest.mark.parametrize("marks", [lambda: None, Marks])
def test_the_rows_are_those_of_python(monkeypatch, marks):
    native_rows = three_steps(make(monkeypatch, "native", marks()))
    assert native_rows == three_steps(make(monkeypatch, "python", marks()))
    assert native_rows[2] == [(0, True), (1, False), (2, True)]


@needs_compiler
def test_the_clock_is_the_probes_own(monkeypatch):
    probe = make(monkeypatch, "native")
    seen = []
    probe.timed("a", lambda: seen.append(time.perf_counter_ns()))()
    ((*_, start_ns, end_ns, _, _),) = probe.ledger.rows["spans"]
    assert start_ns <= seen[0] <= end_ns < start_ns + 10**9


@needs_compiler
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (Arities().none, ()), (Arities().two, (1, 2)), (Arities.two, (None, 1, 2)), (Arities().optional, (1,)),
        (lambda *values: values, (1, 2, 3)), (partial(Arities().two, 1), (5,)), (divmod, (7, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["timed", "timed_phase"])
def test_any_function_gets_the_values_it_takes(monkeypatch, function, values, name):
    probe = make(monkeypatch, "native", Marks())
    call = getattr(probe, name)("a", function)
    assert call(*values) == function(*values)
    probe.be_silent(True)
    assert call(*values) == function(*values)
    assert [row[2] for row in probe.ledger.rows["spans"]] == ["a"]


@needs_compiler
def test_a_use_goes_on_while_its_notes_are_taken_and_the_list_grows(monkeypatch):
    # GIVEN more notes than the array has room for at first, read from within a call
    probe = make(monkeypatch, "native")
    inner = probe.timed("inner", lambda: None)
    counts = []

    def work():
        for _ in range(5000):
            inner()
        counts.append(len(probe.ledger.rows["spans"]))
        inner()

    probe.timed("outer", work)()
    assert counts == [5000]
    assert [row[2] for row in probe.ledger.rows["spans"]][4999:] == ["inner", "inner", "outer"]


class MarkFails:
    """The mark of the given number, from 1, cannot be taken."""

    def __init__(self, at):
        self.left = at

    def mark(self):
        self.left -= 1
        if not self.left:
            raise OSError("no event")
        return 1

    def resolve_mark(self, mark, asked_ns):
        return 1, 1


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
@pytest.mark.parametrize("name", ["timed", "timed_phase"])
def test_values_go_in_by_their_names(monkeypatch, way, name):
    def work(first, /, second, *, third=3):
        return first, second, third

    probe = make(monkeypatch, way, Marks())
    functions = (
        (work, (1,), {"second": 2, "third": 4}), (Arities().two, (), {"second": 2, "first": 1}),
        (lambda append, mark: (append, mark), (1,), {"mark": 2}), (lambda **names: names, (), {"scope": 1}),
        (partial(work, 1), (), {"second": 2}),
    )  # fmt: skip
    for silent in (False, True):
        for function, values, names in functions:
            call = getattr(probe, name)("a", function)
            probe.be_silent(silent)
            assert call(*values, **names) == function(*values, **names)
    # AND a name that the function takes by position alone is none of its
    with pytest.raises(TypeError, match="first"):
        getattr(probe, name)("a", lambda first, /: first)(first=1)


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_mark_that_fails_is_heard_of(monkeypatch, way, at):
    call = make(monkeypatch, way, MarkFails(at)).timed_phase("a", lambda: None)
    with pytest.raises(OSError, match="no event"):
        call()


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_a_mark_may_be_any_function_of_c(monkeypatch, way):
    marks, left = Marks(), deque([1, 2, 3])
    marks.mark = left.popleft  # without arguments: C takes it without a call
    probe = make(monkeypatch, way, marks)
    call = probe.timed_phase("a", lambda: None)
    marks.mark = None
    call()
    with pytest.raises(IndexError, match="empty deque"):
        call()
    assert [note[3:5] for note in probe.noted.take() if len(note) == 6 and note[5]] == [(1, 2)]
    marks.mark = left.append  # wants a value
    with pytest.raises(TypeError, match="append"):
        make(monkeypatch, way, marks).timed_phase("a", lambda: None)()


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_a_stage_that_holds_its_own_call_is_collected(monkeypatch, way):
    class Stage:
        def __init__(self, probe):
            self.call = probe.timed("work", self.work)

        def work(self):
            return 1

    probe = make(monkeypatch, way)
    stage = Stage(probe)
    gone = weakref.ref(stage)
    assert stage.call() == 1
    del stage
    gc.collect()
    assert gone() is None
    # its scope has outlived it, as its note has
    assert [row[2] for row in probe.ledger.rows["spans"]] == ["work"]


@needs_compiler
def test_a_probe_that_is_given_up_takes_its_notes_along(monkeypatch):
    probe = make(monkeypatch, "native", Marks())
    CalledStep(probe).run(0)
    gone = weakref.ref(probe)
    del probe
    gc.collect()
    assert gone() is None


def clear(thing):
    """Do to it what the collector does to garbage: its slot tp_clear."""
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))
    types = [each for each in type(thing).__mro__ if each.__module__ in ("hot_path", "builtins")]
    slot = address(types[0], TP_CLEAR)
    if slot:
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(slot)(thing)


@needs_compiler
def test_what_is_being_collected_may_still_be_called(monkeypatch):
    probe = make(monkeypatch, "native", Marks())
    call, phase, step = probe.timed("a", len), probe.timed_phase("b", len), probe.step(1)
    with probe.step(0) as open_step:
        open_step.note_later(int)
        for thing in (call, phase, step, open_step, probe.noted):
            clear(thing)
        assert call([1]) == phase([1]) == 1
        open_step.note_later(int, 1)
    with step:
        step.note_later(int)
    assert [note[0].name if isinstance(note, tuple) else note.number for note in probe.noted.take()] == [
        "a", "b", 0, 1, 1
    ]  # fmt: skip
    for wrong in ((), (probe.ledger,), (probe.ledger, "many")):
        with pytest.raises(TypeError):
            native().Notes(*wrong)


@needs_compiler
def test_no_reference_is_lost_or_kept(monkeypatch):
    mark, value, error = object(), object(), ValueError("planted")
    marks = Marks()
    marks.mark = lambda: mark
    probe = make(monkeypatch, "native", marks)

    def fail():
        raise error

    call, failing = probe.timed_phase("a", lambda one: one), probe.timed_phase("b", fail)
    noted = [mark, value, error]
    before = [sys.getrefcount(each) for each in noted]
    for _ in range(100):
        call(value)
        with pytest.raises(ValueError, match="planted"):
            failing()
    error.__traceback__ = error.__context__ = None
    probe.noted.take()
    gc.collect()
    assert [sys.getrefcount(each) for each in noted] == before


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_a_step_that_begins_ends_the_one_that_is_open(monkeypatch, way):
    probe = make(monkeypatch, way)
    first = probe.step(1)
    first.__enter__()
    with probe.step(2) as second:
        assert (probe.scope, probe.ledger.step) == (second, 2)
        first.__exit__(GeneratorExit, None, None)  # too late
    assert [(row[0], row[-1]) for row in probe.ledger.rows["steps"]] == [(1, False), (2, True)]
    assert probe.last_start_ns == second.start_ns > first.end_ns


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_a_step_is_given_up_with_its_row(monkeypatch, way):
    probe = make(monkeypatch, way)
    gone = []
    for number in range(2):
        lens = {1, 2, 3}
        with probe.step(number) as step:
            step.note_later(lambda lens: {"num_reqs": len(lens)}, lens)
        gone.append(weakref.ref(lens))  # goes with its step
    del step, lens
    assert [row[3 + STEP_FIGURES.index("num_reqs")] for row in probe.ledger.rows["steps"]] == [3, 3]
    gc.collect()
    assert [ref() is None for ref in gone] == [True, False]  # the last one says when it began


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_figures_for_later_are_made_in_order_however_many_and_long_they_are(monkeypatch, way):
    probe = make(monkeypatch, way)
    held = [object() for _ in range(3)]
    before = [sys.getrefcount(thing) for thing in held]
    short, long = (lambda *of: {"num_reqs": len(of)}), (lambda *of: {"num_reqs": 10 * len(of), "num_tokens": len(of)})
    later = [[(short,)], [(short, *held)], [(long, *held, *held)], [(long, *held), (short, held[0])],
             [(long, *held, *held), (short,), (long, *held)]]  # fmt: skip
    for number, notes in enumerate(later):
        with probe.step(number) as step:
            for note in notes:
                step.note_later(*note)
        assert [tuple(note) for note in step._later] == notes
        with pytest.raises(TypeError):
            step.note_later()
    rows = [row[3:] for row in probe.ledger.rows["steps"]]
    reqs, tokens = STEP_FIGURES.index("num_reqs"), STEP_FIGURES.index("num_tokens")
    assert [(row[reqs], row[tokens]) for row in rows] == [(0, None), (3, None), (60, 6), (1, 3), (30, 3)]
    with probe.step(9):
        pass  # the last one is kept
    del step, later, notes, note
    gc.collect()
    assert [sys.getrefcount(thing) for thing in held] == before


@needs_compiler
def test_a_step_in_c_is_made_by_its_probe_alone_and_keeps_what_python_sets(monkeypatch):
    probe = make(monkeypatch, "native")
    with probe.step(1) as step:
        late = step.late()
        assert (step.held, step._late, step.visible_ns, step._noted, step._keeper) == (True, True, None, None, probe)
    step.note(num_reqs=2)
    with late:
        pass
    assert (step.held, step._noted) == (False, {"num_reqs": 2})
    assert step.visible_ns > step.end_ns
    with pytest.raises(AttributeError):
        step.unknown = 1
    with pytest.raises(TypeError, match="is made by"):
        type(step)(probe, 2)
    for kind in (int, type(step)):
        with pytest.raises(TypeError, match="notes in C"):
            native().steps(kind, SimpleNamespace(noted=[], warmup=False))


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_in_a_class_a_timed_function_is_a_method(monkeypatch, way):
    class Stage:
        def work(self, value):
            return self, value

    probe, stage = make(monkeypatch, way, Marks()), Stage()
    Stage.work = probe.timed("work", Stage.work)
    Stage.phase = probe.timed_phase("phase", Stage.work)
    assert stage.work(1) == getattr(stage, "work")(1) == Stage.work(stage, 1) == stage.phase(value=1) == (stage, 1)  # noqa: B009
    assert [row[2] for row in probe.ledger.rows["spans"]] == ["work"] * 4 + ["phase"]


@pytest.mark.parametrize("way", [pytest.param("native", marks=needs_compiler), "python"])
def test_what_is_timed_again_and_again_is_not_kept(monkeypatch, way):
    probe = make(monkeypatch, way, Marks())

    def calls(count):
        for _ in range(count):
            probe.timed("a", len)([])
            probe.timed_phase("a", len)([])
            probe.noted.take()
        gc.collect()
        return sys.getallocatedblocks()

    calls(10)
    before = calls(1)
    assert calls(1000) - before < 100
