"""Planted host-bound and device-bound runs are told apart; predecessors are named."""

from __future__ import annotations

import random

import pytest
from stepscope.analysis.gaps import gaps


def planted(lab, steps, seed: int, bound: str):
    """The device needs about 500 a step, the host more or less than that by a factor of at least 1.2."""
    rng = random.Random(seed)
    device = rng.randint(300, 800)
    host = round(device * (rng.uniform(1.2, 3.0) if bound == "host" else rng.uniform(0.2, 0.7)))
    copy = rng.randint(1, 60)
    return steps(lab(rng.choice([0, 2**60])), 12, order=rng.choice(["first", "last"]), in_flight=2, copy_ns=copy,
                 forward_ns=device - 31 - copy, build_ns=host // 2, other_ns=host // 2)


@pytest.mark.parametrize("bound", ["host", "device"])
def test_twenty_planted_runs_are_classified(lab, steps, bound: str) -> None:
    for seed in range(10):
        found = gaps(planted(lab, steps, seed, bound).recording())
        assert found.bound == bound, seed
        assert found.shares[bound] > 0.8


def test_a_guarded_copy_on_another_queue_is_what_the_device_waits_for(lab) -> None:
    # GIVEN two in flight, a copy stream, and a guard: the copy waits for the forward that still reads the table
    made = lab()
    forward = 0
    samples: list[int] = []
    for number in range(8):
        with made.step(number):
            with made.span("preprocess", "phase"):
                if forward:
                    made.stream_wait("gpu:copy", forward)
                table = made.copy("block_table", 150, lane="gpu:copy")
                made.host(60)
                made.stream_wait("gpu:compute", table)
            with made.span("forward", "phase"):
                forward = made.launch("forward", 400, kind="graph", consumes=(table,))
            samples.append(made.launch("sample", 20))
            if len(samples) >= 2:
                made.wait(samples[-2])
    steps_table = gaps(made.recording()).steps
    # THEN from the first guarded step on the forward's predecessor is the copy, the idle time 150 - 20, not the host's
    later = steps_table[steps_table["step"] >= 3]
    assert set(later["predecessor"]) == {"copy"}
    assert set(later["bound"]) == {"copy"}
    assert set(later["idle_ns"]) == {130}


@pytest.mark.parametrize(
    ("waits_for", "root", "bound"), [("this step", "host", "host"), ("last step", "device", "event")]
)
def test_an_event_of_another_queue_is_followed_to_where_its_work_came_from(lab, waits_for, root, bound) -> None:
    # GIVEN a forward that waits for another queue: for work of this step, behind 200 of the host's, or of the last one
    made, side = lab(), 0
    for number in range(6):
        with made.step(number):
            if waits_for == "this step":
                made.host(200)
                side = made.launch("side", 50, lane="gpu:side")
            if side:
                made.stream_wait("gpu:compute", side)
            with made.span("forward", "phase"):
                made.launch("forward", 100)
            if waits_for == "last step":
                side = made.launch("side", 300, lane="gpu:side")
    later = gaps(made.recording()).steps.iloc[2:]
    assert set(zip(later["root"], later["bound"], strict=True)) == {(root, bound)}


@pytest.mark.parametrize("base", [0, 2**60])
def test_the_predecessor_of_each_forward(lab, steps, base: int) -> None:
    table = gaps(steps(lab(base), 6, build_ns=400).recording()).steps
    # one in flight: the slot mapping has long ended when the forward is handed over
    assert table["predecessor"].tolist() == ["host"] * 6
    assert table["root"].tolist()[1:] == ["host"] * 5
    assert table["bound"].isna().tolist() == [True] + [False] * 5
    busy = gaps(steps(lab(base), 6, in_flight=2, build_ns=10, other_ns=1).recording()).steps
    assert set(busy["predecessor"][1:]) == {"peer"}
    assert set(busy["root"][2:]) == {"device"}
    assert busy["idle_ns"][2:].tolist() == [0] * 4
    assert set(busy["tolerance_ns"]) == {3}
    assert busy["idle_before_ns"].tolist() == [0] * 6


def test_the_error_widens_the_tolerance(lab) -> None:
    def run(err: int):
        made = lab()
        for number in range(6):
            with made.step(number), made.span("forward", "phase"):
                made.launch("forward", 100, err=err)
                made.host(116)  # 20 idle: handed over 120 after the one before
        return gaps(made.recording())

    assert (run(0).bound, run(8).bound, run(9).bound) == ("host", "host", "device")
    assert run(0).idle_p50_ns == 20


def test_nothing_before_and_nothing_at_all(lab, source) -> None:
    made = lab()
    with made.step(0), made.span("forward", "phase"):
        made.launch("forward", 100)
    found = gaps(made.recording())
    assert found.bound is None
    assert found.steps["reason"].tolist() == ["no operation of an earlier step came before it on its queue"]
    assert gaps(source()).reason == "no forward of a counted step can be replayed"
