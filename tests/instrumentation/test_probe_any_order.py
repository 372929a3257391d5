"""Steps, ranges, phases and calls in any order: C and Python make the same rows, and each step has its own time."""

import random
from itertools import pairwise

import pytest
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.native import native

TABLES = ("steps", "phases", "spans")


class Engine:
    """Does what a seed says, with no respect for what belongs together; `rows` keeps what a writer would have."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.probe = Probe(self.ledger, MonotonicClock(), nvtx="off")
        self.rows = {name: [] for name in TABLES}
        self.open_steps, self.open_ranges = [], []
        self.walk = self.probe.timed("walk", lambda depth: self.walk(depth - 1) if depth else None)
        self.forward = self.probe.timed_phase("forward", lambda divisor: 1 // divisor)
        self.acts = (
            self.begin, self.begin, self.end, self.end, self.call, self.stage, self.range, self.late, self.take,
        )  # fmt: skip

    def run(self):
        for number in range(self.random.randrange(5, 120)):
            self.number = number
            self.random.choice(self.acts)()
        self.probe.finish()
        self.take()
        return self

    def begin(self):
        step = self.probe.step(self.random.choice([self.number, self.number, self.random.randrange(10)]))
        step.__enter__()
        self.open_steps.append(step)

    def end(self):
        if self.open_steps:
            step = self.open_steps.pop(self.random.randrange(len(self.open_steps)))
            step.__exit__(self.random.choice([None, None, ValueError, GeneratorExit]), None, None)

    def call(self):
        self.walk(self.random.randrange(3))

    def stage(self):
        divisor = self.random.randrange(2)
        if divisor:
            self.forward(divisor)
        else:
            with pytest.raises(ZeroDivisionError):
                self.forward(divisor)

    def range(self):
        if self.open_ranges and self.random.random() < 0.6:
            self.open_ranges.pop(self.random.randrange(len(self.open_ranges))).__exit__(None, None, None)
        else:
            self.open_ranges.append(self.probe.range(self.random.choice("ab")))
            self.open_ranges[-1].__enter__()

    def late(self):
        if self.open_steps:
            tokens = self.open_steps[-1].late()
            if self.random.random() < 0.7:
                with tokens:
                    pass

    def take(self):
        for name, rows in self.ledger.take().items():
            if name in TABLES:
                self.rows[name] += rows

    def without_times(self):
        steps = [(row[0], *row[-2:]) for row in self.rows["steps"]]
        phases = [(row[0], row[1], row[2] is None) for row in self.rows["phases"]]
        return steps, phases, [row[:5] for row in self.rows["spans"]], self.probe.diagnostics()


@pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")
def test_c_and_python_make_the_same_rows(monkeypatch):
    for seed in range(300):
        found = []
        for way in (native, lambda: None):
            monkeypatch.setattr(probe_module, "native", way)
            found.append(Engine(seed).run().without_times())
        assert found[0] == found[1], seed


def test_each_step_has_a_number_and_a_time_of_its_own():
    for seed in range(300):
        engine = Engine(seed).run()
        steps = engine.rows["steps"]
        assert len({row[0] for row in steps}) == len(steps), seed
        assert all(first[2] <= second[1] for first, second in pairwise(steps)), seed
        begun = {row[0]: row[1:3] for row in steps}
        for number, _, name, kind, _, start_ns, end_ns, *_ in engine.rows["spans"]:
            assert start_ns <= end_ns
            if kind == "phase" and (number, name) in {row[:2] for row in engine.rows["phases"]}:
                assert begun[number][0] <= start_ns, seed
