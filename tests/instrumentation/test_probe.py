"""The probe on a clock that the test moves: rows, depths, exceptions."""

from contextlib import ExitStack

import pytest
from stepscope.instrumentation.probe import Ledger, NullProbe, Probe
from stepscope.instrumentation.probe.probe import STEP_FIGURES
from stepscope.instrumentation.recording.schema import STEPS

from .probe_fakes import PHASES, FakeMarks, TickingClock, run_step, spans


def test_rows_of_one_step():
    # GIVEN a step with one phase that holds one range, on a clock that moves 10 ns a reading
    ledger = Ledger()
    probe = Probe(ledger, TickingClock(build=100), level="host")
    # WHEN it runs
    with probe.step(7) as step:
        with step.phase("preprocess"), probe.range("build"):
            assert ledger.step == 7
        step.note(num_reqs=3, batch_overlap=0.5)
    # THEN inner rows come first, depth counts what is open, and `leave` moved the clock by the range's cost
    assert ledger.rows["spans"] == [
        (7, "host:main", "build", "range", 1, 30, 140, 0, None),
        (7, "host:main", "preprocess", "phase", 0, 20, 150, 0, None),
    ]
    assert ledger.rows["phases"] == [(7, "preprocess", 130, None, None, None, None, None)]
    (row,) = ledger.rows["steps"]
    figures = dict(zip(("step", "start_ns", "end_ns", *STEP_FIGURES, "warmup", "complete"), row, strict=True))
    assert {name: value for name, value in figures.items() if value is not None} == {
        "step": 7, "start_ns": 10, "end_ns": 160, "latency_ns": 150, "num_reqs": 3, "batch_overlap": 0.5,
        "warmup": False, "complete": True,
    }
    assert ledger.step is None


def test_noted_figures_are_the_columns_of_the_schema():
    names = [column.name for column in STEPS]
    assert names == ["start_ns", "end_ns", *STEP_FIGURES, "warmup", "complete"]


def test_a_figure_without_a_column_is_our_own_mistake():
    with Probe(Ledger(), TickingClock()).step(0) as step, pytest.raises(AssertionError, match="num_apples"):
        step.note(num_apples=1)


def test_figures_may_be_made_with_the_row():
    # GIVEN a step that hands over how its figures are made
    ledger, made = Ledger(), []
    with Probe(ledger, TickingClock()).step(0) as step:
        step.note(num_reqs=1, num_tokens=2)
        step.note_later(lambda: made.append("made") or {"num_tokens": 7})
    assert made == []
    # WHEN somebody reads THEN they stand in the row, once
    row = dict(zip(STEP_FIGURES, ledger.rows["steps"][0][3:], strict=False))
    assert (row["num_reqs"], row["num_tokens"], made) == (1, 7, ["made"])
    assert len(ledger.rows["steps"]) == 1


@pytest.mark.parametrize("kept", [False, True])
def test_an_exit_stack_enters_a_range_as_with_does(kept):
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    for one in (probe, NullProbe()):
        held = one.range("r")
        with ExitStack() as stack:
            assert stack.enter_context(held if kept else one.range("r")) is None
    assert [row[2:7] for row in ledger.rows["spans"]] == [("r", "range", 0, 10, 20)]


def test_rows_of_late_tokens_keep_the_order_and_their_latency_ends_with_them():
    # GIVEN two steps of which the first waits for its tokens
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.step(0) as step:
        late = step.late()
    run_step(probe, 1)
    assert ledger.rows["steps"] == []
    # WHEN they come, between steps: what is written meanwhile belongs to the step that ended last
    with late:
        assert ledger.step == 1
    assert ledger.step is None
    rows = ledger.rows["steps"]
    at = 1 + [column.name for column in STEPS].index("latency_ns")
    assert [row[0] for row in rows] == [0, 1]
    assert rows[0][at] > rows[0][2] - rows[0][1]
    assert rows[1][at] == rows[1][2] - rows[1][1]


def test_tokens_that_never_come_give_no_latency():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.step(0) as step:
        step.late()
    probe.finish()
    (row,) = ledger.rows["steps"]
    assert row[1 + [column.name for column in STEPS].index("latency_ns")] is None


def test_an_interrupt_that_leaves_a_range_open_costs_that_range_only():
    # GIVEN a step in which a Ctrl-C comes before a range's end is noted
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.step(0), probe.range("whole"):
        pass

    def interrupted():
        with probe.step(1):
            probe.range("torn").__enter__()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    run_step(probe, 2)
    # THEN its range ends with its step, and all others are what they are
    assert [(row[0], row[2]) for row in ledger.rows["spans"]][:2] == [(0, "whole"), (1, "torn")]
    assert [row[-1] for row in ledger.rows["steps"]] == [True, False, True]
    assert len([row for row in ledger.rows["spans"] if row[0] == 2]) == 6


@pytest.mark.parametrize(("noted", "latency"), [({}, 10), ({"latency_ns": 99}, 99), ({"latency_ns": None}, None)])
def test_latency_is_the_steps_duration_unless_noted(noted, latency):
    ledger = Ledger()
    with Probe(ledger, TickingClock()).step(0) as step:
        step.note(**noted)
    assert ledger.rows["steps"][0][1 + [c.name for c in STEPS].index("latency_ns")] == latency


def test_warmup_is_read_at_the_start():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    probe.warmup = True
    with probe.step(0):
        probe.warmup = False
    with probe.step(1):
        pass
    assert [row[-2] for row in ledger.rows["steps"]] == [True, False]


def test_ranges_between_steps_belong_to_the_step_that_ended():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.range("schedule"):
        pass
    run_step(probe, 4)
    with probe.range("schedule"):
        ledger.add("waits", "host:main", "tokens", 1, 0, 5)
    run_step(probe, 5)
    assert [row[0] for row in ledger.rows["spans"] if row[2] == "schedule"] == [None, 4]
    assert ledger.rows["waits"][0][0] is None  # rows of others between steps keep the ledger's own step


def test_a_range_around_steps_keeps_its_depth():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.range("loop"):
        run_step(probe, 0)
    depth = {row[2]: row[4] for row in ledger.rows["spans"]}
    assert (depth["loop"], depth["forward"], depth["forward.inner"]) == (0, 1, 2)


def test_the_same_range_may_be_entered_again():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    with probe.range("r"), probe.range("r"):
        pass
    assert spans(ledger) == [(None, "r", "range", 1, 20, 30), (None, "r", "range", 0, 10, 40)]


def test_scope_is_the_open_step():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    probe.scope.note(num_reqs=1)
    with probe.step(0) as step:
        assert probe.scope is step
        probe.scope.note(num_tokens=2)
    with probe.scope.phase("forward"):
        pass
    assert ledger.rows["phases"] == []
    assert 2 in ledger.rows["steps"][0]


def test_case_16_a_stage_that_raises():
    # GIVEN five steps with device marks; `sample` raises in step 3
    ledger = Ledger()
    clock = TickingClock()
    probe = Probe(ledger, clock, marks=FakeMarks(clock))
    for number in range(5):
        if number == 3:
            with pytest.raises(RuntimeError, match="planted"):
                run_step(probe, number, fail_in="sample")
            assert ledger.step is None
        else:
            run_step(probe, number)
    probe.finish()
    # THEN one step is incomplete and the others are not touched
    assert [row[-1] for row in ledger.rows["steps"]] == [True, True, True, False, True]
    measured = {name: [row for row in ledger.rows["phases"] if row[1] == name] for name in PHASES}
    for name in PHASES:
        rows = measured[name]
        assert len(rows) == 5
        whole = [row for row in rows if row[2] is not None and row[3] is not None]
        assert len(whole) == (4 if name == "sample" else 5)
    # and the aborted phase is null, never 0
    assert measured["sample"][3] == (3, "sample", None, None, None, None, None, None)
    # and its host rows were closed at the exception
    assert [row[2] for row in ledger.rows["spans"] if row[0] == 3][-2:] == ["sample.inner", "sample"]


def test_what_a_step_left_open_is_closed_with_it():
    # GIVEN a range and a phase that somebody entered by hand and never left
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    left_open = probe.range("left")
    with probe.step(1):
        left_open.__enter__()
    # WHEN its end comes after the step, or a new step has begun
    with probe.step(2):
        left_open.__exit__(None, None, None)
    # THEN it ended with its step, once
    assert spans(ledger) == [(1, "left", "range", 0, 20, 30)]
    assert len(ledger.rows["steps"]) == 2


def test_a_step_that_is_still_open_is_closed_by_the_next():
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    first = probe.step(1)
    first.__enter__()
    with probe.step(2):
        assert ledger.step == 2
    assert [(row[0], row[-1]) for row in ledger.rows["steps"]] == [(1, False), (2, True)]


def test_case_20_crossed_ends_keep_their_own_times():
    # GIVEN r1 pushed at 0, r2 at 10, r1 ended at 20, r2 at 30
    clock = TickingClock()
    clock.time = -10
    ledger = Ledger()
    probe = Probe(ledger, clock)
    r1, r2 = probe.range("r1"), probe.range("r2")
    r1.__enter__()
    r2.__enter__()
    r1.__exit__(None, None, None)
    r2.__exit__(None, None, None)
    # THEN r1 = [0, 20], r2 = [10, 30], and the mismatch names both
    assert [(row[2], row[5], row[6]) for row in ledger.rows["spans"]] == [("r1", 0, 20), ("r2", 10, 30)]
    assert ("spans", "depth", "range r1 was left while r2 was open inside it") in probe.diagnostics()


def test_depths_across_readings():
    # GIVEN a range around everything, and a reader in the middle of a step
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    depths = {}
    with probe.range("all"):
        for number in range(2):
            with probe.step(number) as step, step.phase("forward"):
                with probe.range("a"), probe.range("b"):
                    pass
                if number:
                    depths |= {(row[0], row[2]): row[4] for row in ledger.take()["spans"]}
                with probe.range("c"):
                    pass
    depths |= {(row[0], row[2]): row[4] for row in ledger.take()["spans"]}
    # THEN each range's depth is what was open around it, read or not
    inner = {"forward": 1, "a": 2, "b": 3, "c": 2}
    assert depths == {**{(n, name): depth for n in (0, 1) for name, depth in inner.items()}, (1, "all"): 0}


def test_neighbours_and_nested_ranges_may_share_a_time():
    # GIVEN a coarse clock: forward [5, 7] holds a [5, 6] and b [6, 7]
    class Coarse(TickingClock):
        now_ns = iter((5, 5, 5, 6, 6, 7, 7, 7)).__next__

    ledger = Ledger()
    probe = Probe(ledger, Coarse())
    with probe.step(0) as step, step.phase("forward"):
        for name in ("a", "b"):
            with probe.range(name):
                pass
    assert [(row[2], row[4]) for row in ledger.rows["spans"]] == [("a", 1), ("b", 1), ("forward", 0)]


def test_take_in_the_middle_of_a_run():
    # GIVEN a loop that takes the rows away between steps, as a writer does
    ledger = Ledger()
    probe = Probe(ledger, TickingClock())
    taken = []
    for number in range(3):
        run_step(probe, number)
        taken.append(ledger.take())
    assert [len(rows["spans"]) for rows in taken] == [6, 6, 6]
    assert [rows["steps"][0][0] for rows in taken] == [0, 1, 2]


def test_the_null_probe_is_free_of_effect():
    probe = NullProbe()
    run_step(probe, 0)
    with pytest.raises(RuntimeError, match="planted"):
        run_step(probe, 1, fail_in="forward")
    with probe.step(2) as step:
        step.note(anything=1)
        assert probe.scope is step
    # every call hands out the same object: nothing is made on the way
    assert probe.range("a") is probe.range("b") is step.phase("c")
    assert probe.step(0) is probe.step(1)
    assert probe.diagnostics() == ()
