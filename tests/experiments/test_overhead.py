"""The probe falls silent by turns: what its ranges cost is a figure, and steps without them are not counted."""

from types import SimpleNamespace

import pytest
from stepscope.analysis.pace import window_of
from stepscope.analysis.summary import summarise
from stepscope.experiments.measure import measure
from stepscope.experiments.overhead import BLOCK, LEAST_STEPS, NUM_SILENT, ROUNDS, Overhead, alternates
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session
from stepscope.experiments.spec import MeasureSpec
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe.native import look, native
from stepscope.instrumentation.telemetry import TelemetrySampler
from stepscope.runner.devices.sim_clock import DeclaredClock


class FakeProbe:
    def __init__(self):
        self.last_start_ns = 0
        self.silent = False

    def be_silent(self, silent):
        self.silent = silent


def played(steps, loud_ns=130, quiet_ns=100, drift_ns=0, first=5):
    """Steps from number 0 on, of these lengths; the first silent step of a block is 50 longer, and so is the first loud
    one behind them."""
    overhead, probe, was = Overhead(first), FakeProbe(), False
    silent = []
    for number in range(steps):
        silent.append(probe.silent)
        changed = probe.silent != was
        was = probe.silent
        overhead.after_step(number, probe)
        probe.last_start_ns += (quiet_ns if silent[-1] else loud_ns) + 50 * changed + drift_ns * number
    return overhead, silent


WHOLE = 5 + 4 * BLOCK * ROUNDS


def test_the_difference_of_the_blocks_is_what_ranges_cost():
    overhead, silent = played(WHOLE + 3)
    # THEN silent are exactly the steps that carry warmup, in the order A B B A
    assert {number for number, quiet in enumerate(silent) if quiet} == overhead.silent
    assert len(overhead.silent) == NUM_SILENT == 36
    assert not silent[-1]
    assert overhead.differences_ns() == [30, 30, 30]
    rows = {row[1]: row[2] for row in overhead.rows({})}
    assert rows == {"step": 30.0, "step/low": 30.0, "step/high": 30.0}


def test_a_drift_falls_on_both():
    assert played(WHOLE + 3, drift_ns=7)[0].differences_ns() == [30, 30, 30]


def test_pipelined_steps_are_held_together_by_their_pace():
    # GIVEN two steps in flight whose tokens come late every third step, with ranges only: about two steps of the
    # device's, the host's work alone, about one
    by_window = {}
    for window in (1, window_of(2)):
        overhead, probe, was = Overhead(5, window), FakeProbe(), False
        for number in range(WHOLE + 3):
            loud, changed, was = not probe.silent, probe.silent != was, probe.silent
            overhead.after_step(number, probe)
            probe.last_start_ns += (2030, 300, 760)[number % 3] if loud else 1000
            probe.last_start_ns += 50 * changed
        by_window[window] = overhead.differences_ns()
    # THEN a step with ranges takes 30 longer, where the median of single periods has it 240 shorter
    assert by_window == {1: [-240, -240, -240], 6: [30, 30, 30]}


def test_only_whole_rounds_count():
    assert played(5 + 4 * BLOCK + 2)[0].differences_ns() == [30]
    assert played(5 + 4 * BLOCK + 1)[0].rows({}) == []


@pytest.mark.parametrize(
    ("measured", "device", "expected"),
    [
        ({"steps": LEAST_STEPS}, "cuda", True), ({"steps": LEAST_STEPS - 1}, "cuda", False), ({}, "cuda", False),
        ({"steps": 200, "steps_modelled": 24}, "sim", False), ({"steps": 200, "interleave": "x"}, "cuda", False),
    ],
)  # fmt: skip
def test_which_runs_alternate(measured, device, expected):
    assert alternates(MeasureSpec(**measured), device) is expected


def test_a_silent_probe_keeps_steps_and_nothing_else():
    ledger, clock = Ledger(), DeclaredClock({"r": 10, "p": 20})
    probe = Probe(ledger, clock)
    held = probe.range("r")
    for number, silent in enumerate((False, True, False)):
        probe.be_silent(silent)
        with probe.step(number) as step, step.phase("p"), held, held:
            pass
    probe.finish()
    rows = ledger.take()
    assert [row[0] for row in rows["steps"]] == [0, 1, 2]
    assert sorted((row[0], row[2]) for row in rows["spans"]) == sorted(
        (number, name) for number in (0, 2) for name in ("p", "r", "r")
    )
    assert [row[0] for row in rows["phases"]] == [0, 2]


def test_a_long_run_has_the_figure_and_all_the_steps_that_were_asked_for(tmp_path):
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 1, "prompt_len": 4}}, "device": "sim",
        "runner": {"max_num_seqs": 1, "max_model_len": 256, "model": "micro"}, "measure": {"steps": LEAST_STEPS},
    }  # fmt: skip
    recording = measure(resolve(tree), tmp_path / "recording").recording
    metrics = summarise(recording).metrics
    assert metrics["steps_counted"] == LEAST_STEPS
    assert isinstance(metrics["own_overhead_ns"], int)
    # AND every counted step has its phases, although they fell silent in others
    steps, phases = (recording.tables[name] for name in ("steps", "phases"))
    counted = steps.loc[~steps["warmup"], "step"]
    assert set(counted) <= set(phases.loc[phases["host_ns"].notna(), "step"])
    # AND a short one says why it has none
    tree["measure"] = {"steps": 4}
    short = summarise(measure(resolve(tree), tmp_path / "short").recording)
    assert short.metrics["own_overhead_ns"] is None
    assert "silent by turns" in short.reasons["own_overhead_ns"]


def test_a_recording_says_in_which_language_its_probe_was(tmp_path, monkeypatch):
    tree = {
        "workload": {"regime": "steady", "settings": {"num_reqs": 1, "prompt_len": 4}}, "device": "cpu",
        "runner": {"max_num_seqs": 1, "max_model_len": 256, "model": "micro"}, "measure": {"steps": 4},
    }  # fmt: skip
    told = [measure(resolve(tree), tmp_path / "native").recording.meta.environment["probe"]]
    monkeypatch.setenv("STEPSCOPE_NATIVE_PROBE", "0")
    look.cache_clear()
    told.append(measure(resolve(tree), tmp_path / "python").recording.meta.environment["probe"])
    told.append(measure(resolve({**tree, "device": "sim"}), tmp_path / "sim").recording.meta.environment["probe"])
    look.cache_clear()
    assert told[1:] == ["Python", "Python"]
    monkeypatch.undo()
    assert told[0] == ("C" if native() is not None else "Python")


@pytest.mark.skipif(native() is None, reason="the probe is in Python here")
def test_a_recording_says_where_events_are_in_python(monkeypatch):
    tree = {"workload": {"regime": "steady", "settings": {"num_reqs": 1}}, "device": "cpu", "measure": {"steps": 4}}
    spec = resolve(tree)

    def told(device, language="C"):
        clock = SimpleNamespace(clock_id="host")
        device = SimpleNamespace(name=device, modelled=False, clock=clock, pinned=True, pinned_reason="")
        session = SimpleNamespace(
            device=device, probe=SimpleNamespace(language=language), _sampler=TelemetrySampler(),
            _workload=workload_of(spec),
        )  # fmt: skip
        return Session.meta_of(session, spec, None).environment["probe"]

    assert [told("cuda"), told("cpu"), told("cuda", "Python")] == ["C", "C", "Python"]
    monkeypatch.setenv("STEPSCOPE_NATIVE_EVENTS", "0")
    # GIVEN the switch THEN it is told where there are events, and where not all is in Python
    assert [told("cuda"), told("cpu"), told("cuda", "Python")] == ["C, events in Python", "C", "Python"]
