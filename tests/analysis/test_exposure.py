"""Exposed, hidden and the steady period against closed forms and against running the engine again without the copy."""

from __future__ import annotations

import random

import pytest
from stepscope.analysis.exposure import exposure
from stepscope.analysis.what_if import Change, faster_phase, table_copies, what_if

COPY = 155


def figures(lab, **options):
    found = exposure(lab.recording(), **options)
    row = found.steps.iloc[-2]
    return found, row


def test_sync_scheduling_hides_the_host_work_between_the_commit_points(lab, steps) -> None:
    # GIVEN one step in flight: C starts at 0 + 4 + 3, ends at 162; the consumer is handed over at 4 + 60 + 4 + 4 = 72,
    # the small copy (6) follows C, so the consumer starts at 168 with C and at 75 + 0 without (copy: 71..77)
    found, row = figures(steps(lab(), 6))
    assert row["copy_ns"] == COPY
    assert row["exposed_ns"] == 168 - 77
    assert row["hidden_ns"] == COPY - (168 - 77)
    assert row["hidden_by_host_ns"] == row["hidden_ns"]
    assert row["queue_delay_ns"] == 3
    # the forward is handed over at 72 + 40 + 4 = 116, before the slot mapping ends: the step loses the forward's delay
    assert found.exposed_step_ns == (168 + 5) - (116 + 3)
    assert found.misfit_ns == 0


def test_commit_last_exposes_the_whole_copy_under_sync_scheduling(lab, steps) -> None:
    _, row = figures(steps(lab(), 6, order="last"))
    # C handed over at 72, small copy done at 77: C 77..232, consumer 232; without C the consumer, handed over at 76,
    # starts at 79
    assert row["exposed_ns"] == 232 - 79
    assert row["hidden_ns"] == 2


@pytest.mark.parametrize("order", ["first", "last"])
def test_two_in_flight_on_the_compute_stream_expose_everything(lab, steps, order: str) -> None:
    found, row = figures(steps(lab(), 8, order=order, in_flight=2))
    assert row["exposed_ns"] == COPY
    assert row["hidden_ns"] == 0
    assert found.exposed_step_ns == COPY


def test_two_in_flight_on_a_copy_stream_hide_behind_the_previous_forward(lab, steps) -> None:
    found, row = figures(steps(lab(), 8, in_flight=2, lane="gpu:copy"))
    assert row["exposed_ns"] == 0
    assert row["hidden_by_previous_forward_ns"] == COPY
    assert found.exposed_step_ns == 0


def test_another_copy_can_be_the_mask(lab, source) -> None:
    made = lab()
    with made.step(0):
        table = made.copy("block_table", 50, lane="gpu:copy")
        made.copy("other", 80)
        made.stream_wait("gpu:compute", table)
        made.launch("reader", 5, consumes=(table,))
    row = exposure(made.recording()).steps.iloc[0]
    # C: 7..57; the other copy is handed over at 8, runs 11..91, and the reader follows it
    assert (row["exposed_ns"], row["hidden_ns"]) == (0, 50)
    assert (row["hidden_by_host_ns"], row["hidden_by_copy_ns"]) == (4, 46)


def test_what_hid_a_copy_adds_up_also_where_it_began_within_its_call(lab) -> None:
    # GIVEN a copy whose call returns at 30, and that began at 10, as measured ones do
    made = lab()
    with made.step(0):
        table = made.copy("block_table", 100, lane="gpu:copy", cost=30, latency=-20)
        made.host(200)
        made.stream_wait("gpu:compute", table)
        made.launch("reader", 5, consumes=(table,))
    row = exposure(made.recording()).steps.iloc[0]
    # THEN all of 10..110 lies behind the host's work: what was left of the call, and what came after it
    assert (row["exposed_ns"], row["hidden_ns"], row["hidden_by_host_ns"]) == (0, 100, 100)


def test_the_consumer_that_starts_first_counts(lab) -> None:
    made = lab()
    with made.step(0):
        table = made.copy("block_table", 50, lane="gpu:copy")
        made.stream_wait("gpu:compute", table)
        made.launch("soon", 5)
        made.host(500)
        made.launch("late", 5)
    for reader in (3, 2):
        made.add("edges", kind="consumer", waiting=reader, awaited=table)
    # C: 7..57; the earlier reader is handed over at 8 and could start at 11
    assert exposure(made.recording()).steps["exposed_ns"].tolist() == [57 - 11]


def test_a_copy_that_runs_inside_its_own_call_is_exposed_on_the_host(lab) -> None:
    made = lab()
    for number in range(6):
        with made.step(number):
            table = made.copy("block_table", 500, src="blocking")
            made.host(20)
            made.launch("reader", 5, consumes=(table,))
    found = exposure(made.recording())
    # the call comes back 5 after the copy's end: without the copy it comes back 5 after its start
    assert found.steps["exposed_ns"].tolist() == [500] * 6
    assert found.exposed_step_ns == 500
    assert found.misfit_ns == 0


def test_without_a_copy_in_the_steady_steps_nothing_is_said_of_the_period(lab, steps) -> None:
    made = steps(lab(), 8, order="skip")
    assert exposure(made.recording()).exposed_step_ns is None
    assert len(exposure(made.recording()).steps) == 0


def test_what_was_not_measured_is_null_with_a_reason(lab, steps) -> None:
    made = steps(lab(), 6)
    made.rows["edges"] = [row for row in made.rows["edges"] if row["awaited"] != 1]
    tables = [row for row in made.rows["copies"] if row["buffer"] == "block_table"]
    tables[1]["err_ns"] = 39
    tables[2]["err_ns"] = None
    tables[3]["end_ns"] = None
    found = exposure(made.recording()).steps
    assert found["exposed_ns"].isna().tolist() == [True, True, True, True, False, False]
    assert found["reason"].tolist()[:4] == [
        "the copy's first consumer is not declared", "copy shorter than 4 times its error",
        "error of the copy's times is unknown", "the copy has no device times or no enqueueing call",
    ]
    assert found["copy_ns"].isna().tolist() == [False, False, False, True, False, False]


def test_exposed_step_needs_three_steady_steps(lab, steps) -> None:
    found = exposure(steps(lab(), 4).recording())
    assert found.exposed_step_ns is None
    assert found.exposed_step_reason == "only 1 steady steps can be replayed, 3 are needed"
    assert exposure(steps(lab(), 6).recording()).exposed_step_ns is not None


def loop(lab, seed: int, freed: int | None = None):
    """Random steps with constant call costs; the table copy of step `freed` takes no time."""
    rng = random.Random(seed)
    lane = rng.choice(["gpu:compute", "gpu:copy"])
    samples: list[int] = []
    depth = rng.choice([1, 2])
    readers: dict[int, int] = {}
    lab.launch("warm", 1)
    lab.host(50)
    lab.wait(1)
    for number in range(5):
        with lab.step(number), lab.span("preprocess", "phase"):
            duration = rng.randint(1, 300)
            table = lab.copy("block_table", 0 if number == freed else duration, lane=lane)
            for _ in range(rng.randint(0, 4)):
                lab.host(rng.randint(1, 60))
                lab.copy("small", rng.randint(0, 30), lane=rng.choice(["gpu:compute", lane]))
            if rng.random() < 0.3 and samples:
                lab.wait(samples[-1])
            if lane != "gpu:compute":
                lab.stream_wait("gpu:compute", table)
            if rng.random() < 0.3:
                lab.host(rng.randint(1, 200))
            readers[number] = lab.launch("reader", rng.randint(0, 9), consumes=(table,))
        with lab.span("forward", "phase"):
            lab.launch("forward", rng.randint(50, 500))
        samples.append(lab.launch("sample", 20))
        lab.host(rng.randint(1, 60))
        if len(samples) >= depth:
            lab.wait(samples[-depth])
    return lab, readers


@pytest.mark.parametrize(("base", "seeds"), [(0, range(40)), (2**60, range(40, 55))])
def test_exposed_equals_running_the_engine_again_without_the_copy(lab, base: int, seeds: range) -> None:
    kinds: set[str] = set()
    for seed in seeds:
        made, readers = loop(lab(base), seed)
        table = exposure(made.recording()).steps
        for number, reader in readers.items():
            again, _ = loop(lab(), seed, freed=number)
            row = table.iloc[number]
            assert row["exposed_ns"] == made.ops[reader][0] - again.ops[reader][0], (seed, number)
            parts = {mask: row[f"hidden_by_{mask}_ns"] for mask in ("host", "previous_forward", "copy", "other")}
            assert sum(parts.values()) == row["hidden_ns"] == row["copy_ns"] - row["exposed_ns"]
            assert min(parts.values()) >= 0
            kinds |= {mask for mask, value in parts.items() if value}
    if len(seeds) == 40:  # enough for each way of being hidden to occur
        assert kinds == {"host", "previous_forward", "copy", "other"}


@pytest.mark.parametrize("base", [0, 2**60])
def test_what_if_equals_running_the_engine_again(lab, steps, base: int) -> None:
    made = steps(lab(base), 9, build_ns=600, other_ns=400)
    faster = steps(lab(), 9, build_ns=420, other_ns=280)
    # host work of preprocess is build, other and the calls' own cost: 4 of 5 calls end in it, 4 ns each
    found = what_if(made.recording(), faster_phase("preprocess", 0.3))
    expected = faster.rows["steps"][5]["period_ns"]
    assert found.period_ns == made.rows["steps"][5]["period_ns"]
    assert abs(found.predicted_period_ns - expected) <= 5
    assert found.saved_ns == found.period_ns - found.predicted_period_ns


def test_a_dose_of_the_copy_moves_the_period_by_its_exposure(lab, steps) -> None:
    made = steps(lab(), 9, in_flight=2)
    recording = made.recording()
    assert what_if(recording, table_copies(["block_table"], 0)).saved_ns == COPY
    assert what_if(recording, Change("twice", copies={"block_table": 2.0})).saved_ns == -COPY
    assert what_if(recording, Change("four times", copies={"block_table": 4.0})).saved_ns == -3 * COPY
