"""NVTX ranges balance, through exceptions, crossed ends, and a push that returns -1."""

import pytest
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import probe as probe_module
from stepscope.instrumentation.probe.nvtx_ranges import open_ranges


class FakeDomain:
    def __init__(self, attached=True):
        self.attached = attached
        self.depth = 0
        self.names = []
        self.registered = []

    def get_event_attributes(self, message):
        self.registered.append(message)
        return ("attributes", message) if self.attached else None

    def push_range(self, attributes):
        self.names.append((self.depth, attributes[1]))
        self.depth += 1
        return -1  # what a tool may return though the range was opened

    def pop_range(self):
        self.depth -= 1
        assert self.depth >= 0


class FakeNvtx:
    def __init__(self, attached=True):
        self.domain = FakeDomain(attached)
        self.domain_names = []

    def get_domain(self, name):
        self.domain_names.append(name)
        return self.domain


@pytest.fixture
def nvtx():
    return FakeNvtx()


@pytest.fixture
def probe(nvtx, monkeypatch):
    monkeypatch.setattr(probe_module, "open_ranges", lambda mode: open_ranges(mode, nvtx))
    return Probe(Ledger(), MonotonicClock(), nvtx="on")


def run_step(probe, number, fail=False):
    with probe.step(number) as step, step.phase("preprocess"), probe.range("build_indices"):
        if fail:
            raise RuntimeError("planted")


def test_ranges_nest_in_the_domain_stepscope(probe, nvtx):
    run_step(probe, 0)
    with probe.range("schedule"):
        pass
    assert nvtx.domain_names == ["stepscope"]
    assert nvtx.domain.names == [(0, "step"), (1, "preprocess"), (2, "build_indices"), (0, "schedule")]
    assert nvtx.domain.depth == 0


def test_each_name_is_registered_once(probe, nvtx):
    for number in range(5):
        run_step(probe, number)
    assert sorted(nvtx.domain.registered) == ["build_indices", "preprocess", "step"]


def test_exceptions_leave_depth_0(probe, nvtx):
    for number in range(6):
        if number % 2:
            with pytest.raises(RuntimeError, match="planted"):
                run_step(probe, number, fail=True)
        else:
            run_step(probe, number)
        assert nvtx.domain.depth == 0
    assert [row[-1] for row in probe.ledger.rows["steps"]] == [True, False] * 3


def test_a_range_left_open_is_popped_with_its_step_and_not_again(probe, nvtx):
    left = probe.range("left")
    with probe.step(0):
        left.__enter__()
    assert nvtx.domain.depth == 0
    with probe.step(1):
        left.__exit__(None, None, None)
        assert nvtx.domain.depth == 1
    assert nvtx.domain.depth == 0


def test_a_phase_left_open_likewise(probe, nvtx):
    with probe.step(0) as step:
        phase = step.phase("forward")
        phase.__enter__()
    assert nvtx.domain.depth == 0
    phase.__exit__(None, None, None)
    assert nvtx.domain.depth == 0


def test_crossed_ends_pop_as_often_as_they_pushed(probe, nvtx):
    r1, r2 = probe.range("r1"), probe.range("r2")
    r1.__enter__()
    r2.__enter__()
    r1.__exit__(None, None, None)
    assert nvtx.domain.depth == 1
    r2.__exit__(None, None, None)
    assert nvtx.domain.depth == 0
    assert [row[2] for row in probe.ledger.rows["spans"]] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("mode", "attached", "opened"),
    [("auto", True, True), ("auto", False, False), ("on", True, True), ("on", False, True), ("off", True, False)],
)
def test_modes(mode, attached, opened):
    assert (open_ranges(mode, FakeNvtx(attached)) is not None) is opened


def test_the_real_package_without_a_tool():
    pytest.importorskip("nvtx")
    assert open_ranges("auto") is None
    ranges = open_ranges("on")  # pushes into nothing, and stays balanced
    ranges.push("a")
    ranges.leave("a")
    ranges.leave("a")
    assert ranges.depth == 0


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nvtx", None)
    assert open_ranges("auto") is None
