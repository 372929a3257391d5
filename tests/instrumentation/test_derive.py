"""Columns that follow from other rows, by hand and against a bitmap."""

import random

import pandas as pd
import pytest
from stepscope.instrumentation.recording import Diagnostic, ProcessKeys, Recording, RecordingMeta
from stepscope.instrumentation.recording.busy import Work
from stepscope.instrumentation.recording.meta import DROPPED
from stepscope.instrumentation.recording.schema import LEDGER_COLUMNS, STEPS

BASE = 2**60


def meta(device="sim", **changes):
    modelled = device == "sim"
    calibration = "h200" if modelled else None
    process = ProcessKeys(device=device)
    return RecordingMeta(source="lab", device=device, modelled=modelled, calibration=calibration, process=process)


def step(number, start, end, **figures):
    names = [column.name for column in STEPS]
    values = {"start_ns": BASE + start, "end_ns": BASE + end, "warmup": False, "complete": True, **figures}
    return (number, *(values.get(name) for name in names))


def span(number, lane, kind, start, end):
    return (number, lane, "x", kind, 0, BASE + start, BASE + end, 0, None)


def phase(number, name, host, span_ns=None, begin=None):
    return (number, name, host, span_ns, None, None, 0 if span_ns else None, None if begin is None else BASE + begin)


def copy(number, direction, lane, start, end):
    times = (BASE + start, BASE + start + 1, BASE + start, BASE + end, 0)
    return (number, direction, 8, None, "pinned", "device", "b", lane, *times, False, True, 9)


def column(recording, table, name):
    return [None if value is pd.NA else value for value in recording.table(table)[name].tolist()]


def test_periods_waits_and_counts():
    # GIVEN three steps, waits of 30 and 20 in the first, one between steps, one on a device lane
    rows = {
        "steps": [step(4, 0, 100), step(5, 130, 200), step(6, 250, 260)],
        "waits": [
            (4, "host:main", "tokens", 1, BASE + 10, BASE + 40),
            (4, "host:main", "buffer:ids", 2, BASE + 50, BASE + 70),
            (None, "host:main", "tokens", 3, BASE + 100, BASE + 120),
            (5, "gpu:copy", "event", 4, BASE + 1, BASE + 90),
        ],
        "spans": [
            span(4, "host:main", "launch", 1, 2), span(4, "host:main", "launch", 3, 4),
            span(4, "gpu:compute", "kernel", 5, 9), span(5, "host:main", "range", 5, 9),
            span(5, "host:main", "launch", 1, 2),
        ],
        "copies": [copy(number, way, "gpu:copy", 1, 2) for number, way in ((4, "h2d"), (4, "d2h"), (6, "h2d"))],
    }
    recording = Recording.from_ledger(rows, meta())
    assert column(recording, "steps", "period_ns") == [130, 120, None]
    assert column(recording, "steps", "host_wait_ns") == [50, 0, 0]
    assert column(recording, "steps", "host_busy_ns") == [50, 70, 10]
    assert column(recording, "steps", "num_syncs") == [2, 0, 0]
    assert column(recording, "steps", "num_launches") == [2, 1, 0]
    assert column(recording, "steps", "num_h2d") == [1, 0, 1]
    assert recording.meta.reason("steps", "period_ns") == "the last step has no next one"


def test_what_the_host_waits_for_between_two_steps_is_not_taken_from_the_time_within():
    # GIVEN two steps in flight: step 5's row carries the wait for step 4's tokens, which came behind its end
    rows = {
        "steps": [step(4, 0, 100), step(5, 130, 200), step(6, 260, 300)],
        "waits": [
            (5, "host:main", "buffer:ids", 2, BASE + 140, BASE + 150),
            (5, "host:main", "tokens", 1, BASE + 200, BASE + 240),
        ],
        "phases": [phase(5, "preprocess", 70)],
    }
    recording = Recording.from_ledger(rows, meta())
    # THEN the period's wait is all of it, the step's own work is what it was, and the period closes
    assert column(recording, "steps", "host_wait_ns") == [0, 50, 0]
    assert column(recording, "steps", "host_busy_ns") == [100, 60, 40]
    assert column(recording, "steps", "num_syncs") == [0, 2, 0]
    assert column(recording, "steps", "period_ns") == [130, 130, None]
    between = recording.table("phases").query("name == 'between_steps' and step == 5")["host_ns"].tolist()
    assert 60 + 10 + between[0] == 130


def test_what_was_noted_stays():
    rows = {"steps": [step(0, 0, 100, period_ns=7, host_wait_ns=60, num_syncs=9), step(1, 130, 200)]}
    recording = Recording.from_ledger(rows, meta())
    assert column(recording, "steps", "period_ns") == [7, None]
    assert column(recording, "steps", "host_busy_ns") == [40, 70]
    assert column(recording, "steps", "num_syncs") == [9, 0]


def test_on_cpu_device_counts_are_null_and_say_so():
    rows = {"steps": [step(0, 0, 100)], "spans": [span(0, "host:main", "launch", 1, 2)], "phases": [phase(0, "f", 10)]}
    recording = Recording.from_ledger(rows, meta("cpu"))
    for name in ("num_syncs", "num_launches", "num_h2d"):
        assert column(recording, "steps", name) == [None]
        assert recording.meta.reason("steps", name) == "not applicable on device cpu"
    assert column(recording, "steps", "host_busy_ns") == [100]
    assert recording.meta.reason("phases", "busy_ns") == "not applicable on device cpu"


def test_between_steps_closes_the_period():
    # GIVEN phases without gaps inside two steps
    rows = {
        "steps": [step(0, 0, 100), step(1, 130, 200)],
        "phases": [phase(0, "preprocess", 60), phase(0, "sample", 40), phase(1, "preprocess", 70)],
    }
    phases = Recording.from_ledger(rows, meta()).table("phases")
    assert phases[["step", "name", "host_ns"]].to_numpy().tolist() == [
        [0, "preprocess", 60], [0, "sample", 40], [0, "between_steps", 30], [1, "preprocess", 70],
    ]
    # THEN the phases of a step and what follows it add up to its period
    assert phases[phases["step"] == 0]["host_ns"].sum() == 130


def test_busy_and_starved_of_a_modelled_span():
    # GIVEN a span [100, 200) and on the compute lane [90, 120), [110, 130), a graph [150, 160), a copy [155, 170)
    rows = {
        "phases": [phase(0, "forward", 5, span_ns=100, begin=100), phase(0, "sample", 5)],
        "spans": [
            span(0, "gpu:compute", "kernel", 90, 120), span(0, "gpu:compute", "kernel", 110, 130),
            span(0, "gpu:compute", "graph", 150, 160), span(0, "gpu:copy", "kernel", 100, 200),
            span(0, "host:main", "launch", 100, 200), span(0, "gpu:compute", "wait", 100, 200),
        ],
        "copies": [copy(0, "h2d", "gpu:compute", 155, 170), copy(0, "h2d", "gpu:copy", 100, 200)],
    }
    recording = Recording.from_ledger(rows, meta())
    assert column(recording, "phases", "busy_ns") == [30 + 20, None]
    assert column(recording, "phases", "starved_ns") == [50, None]
    # and measured, without a profiler, it is known when the lane had nothing to do, not how busy it was otherwise
    measured = Recording.from_ledger(rows, meta("cuda"))
    assert column(measured, "phases", "busy_ns") == [None, None]
    assert column(measured, "phases", "starved_ns") == [50, None]
    assert measured.meta.reason("phases", "busy_ns") == "needs a profiler's view of the device's work"


@pytest.mark.parametrize("seed", range(20))
def test_work_equals_a_bitmap(seed):
    generator = random.Random(seed)
    for _ in range(100):
        pairs = [sorted(generator.choices(range(60), k=2)) for _ in range(generator.randrange(12))]
        bitmap = [any(start <= tick < end for start, end in pairs) for tick in range(70)]
        work = Work((BASE + start, BASE + end) for start, end in pairs)
        for _ in range(20):
            begin, end = sorted(generator.choices(range(70), k=2))
            assert work.within(BASE + begin, BASE + end) == sum(bitmap[begin:end])
    assert work.within(BASE + 5, BASE + 1) == 0


def test_the_index_of_a_ledger_row_counts_its_step():
    assert len(step(0, 0, 1)) == 1 + len(LEDGER_COLUMNS["steps"])
    assert len(phase(0, "x", 1)) == 1 + len(LEDGER_COLUMNS["phases"])
    assert len(copy(0, "h2d", "gpu:copy", 0, 1)) == 1 + len(LEDGER_COLUMNS["copies"])


@pytest.mark.parametrize("lost", [False, True])
def test_where_rows_were_lost_nothing_is_made_of_what_is_left(lost):
    # GIVEN steps 4, 5 and 9 of which a full disk took the waits, launches and steps between
    about = meta()
    if lost:
        about = about.with_diagnostics(Diagnostic("steps", "complete", f"7 {DROPPED}"))
    rows = {
        "steps": [step(4, 0, 100), step(5, 130, 200), step(9, 900, 950)], "copies": [copy(4, "h2d", "gpu:copy", 1, 2)],
        "phases": [phase(4, "forward", 50, span_ns=40, begin=10)],
    }
    found = Recording.from_ledger(rows, about)
    # THEN a period reaches to the next number at most, and sums and counts are not known
    assert column(found, "steps", "period_ns") == [130, None if lost else 770, None]
    assert column(found, "phases", "host_ns") == [50, 30, *([] if lost else [700])]
    for name in ("host_wait_ns", "host_busy_ns", "num_launches", "num_h2d", "num_syncs"):
        assert (column(found, "steps", name) == [None] * 3) == lost
        assert not lost or found.meta.reason("steps", name) == "rows are missing that it is made of"
    assert (column(found, "phases", "busy_ns")[0] is None) == lost


def test_of_another_engine_what_nobody_recorded_is_not_zero():
    # GIVEN an engine of somebody's own on a GPU, with marks at its phases and nothing else
    about = RecordingMeta(source="my engine", device="cuda", process=ProcessKeys(device="cuda"))
    rows = {"steps": [step(0, 0, 100), step(1, 130, 200)], "phases": [phase(0, "forward", 50, span_ns=40, begin=10)]}
    found = Recording.from_ledger(rows, about)
    made = {"host_wait_ns": 20, "host_busy_ns": 80, "num_launches": 1, "num_h2d": 1, "num_syncs": 1}
    for name in made:
        assert column(found, "steps", name) == [None, None]
        assert found.meta.reason("steps", name) == "not recorded by source my engine"
    assert column(found, "phases", "starved_ns")[0] is None
    # WHEN it writes down its waits, launches, copies and operations, too
    rows["waits"] = [(0, "host:main", "tokens", 1, BASE + 10, BASE + 30)]
    rows["spans"] = [span(0, "host:main", "launch", 1, 2), span(0, "gpu:compute", "kernel", 20, 30)]
    rows["copies"] = [copy(0, "h2d", "gpu:copy", 1, 2)]
    # THEN they count, and 0 is a count
    found = Recording.from_ledger(rows, about)
    assert {name: column(found, "steps", name)[0] for name in made} == made
    assert column(found, "steps", "num_launches")[1] == 0
    assert column(found, "phases", "starved_ns")[0] == 30


def test_rows_of_two_probes_are_not_put_together():
    # GIVEN two loops that count from 0 and give their rows to one writer, of which one goes on longer
    rows = {
        "steps": [step(0, 0, 100), step(1, 130, 200), step(2, 250, 300), step(0, 5, 90), step(1, 140, 190)],
        "phases": [phase(number, "forward", 50) for number in (0, 1, 2, 0, 1)],
    }
    found = Recording.from_ledger(rows, meta("cpu"))
    # THEN what cannot be told apart does not count, and why stands before everything else
    assert column(found, "steps", "complete") == [False, False, True, False, False]
    assert column(found, "steps", "period_ns") == [None] * 5
    assert "between_steps" not in column(found, "phases", "name")
    assert [why.split(",")[0] for why in found.meta.lacks] == ["2 step numbers stand twice"]
