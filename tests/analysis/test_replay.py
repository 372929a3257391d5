"""A recording replayed unchanged comes back to the nanosecond, whatever the program was."""

from __future__ import annotations

import random

import numpy as np
import pytest
from stepscope.analysis.replay import replays

LANES = ("gpu:compute", "gpu:copy", "gpu:output")


def random_program(lab, seed: int):
    """Host work, launches, copies, events and waits in random order, within steps and phases or not."""
    rng = random.Random(seed)
    ops: list[int] = []
    for number in range(rng.randint(3, 24)):
        with lab.step(number), lab.span(rng.choice(["preprocess", "forward", "sample"]), "phase"):
            for _ in range(rng.randint(1, 8)):
                act(lab, rng, ops)
        act(lab, rng, ops)
    return lab


def act(lab, rng: random.Random, ops: list[int]) -> None:
    lane = rng.choice(LANES)
    what = rng.randrange(5)
    if what == 0:
        lab.host(rng.randint(0, 50))
    elif what == 1:
        ops.append(lab.launch("k", rng.randint(0, 200), lane=lane, cost=rng.randint(1, 9), latency=rng.randint(0, 5)))
    elif what == 2:
        src = rng.choice(["pinned", "blocking"])
        ops.append(lab.copy("b", rng.randint(0, 200), lane=lane, cost=rng.randint(1, 9), src=src))
    elif what == 3 and ops:
        lab.stream_wait(lane, rng.choice(ops))
    elif what == 4 and ops:
        lab.wait(rng.choice(ops), overhead=rng.randint(1, 4), wakeup=rng.randint(0, 9))


@pytest.mark.parametrize(("base", "seeds"), [(0, range(40)), (2**60, range(100, 110))])
def test_replaying_unchanged_reproduces_random_programs(lab, base: int, seeds: range) -> None:
    for seed in seeds:
        made = random_program(lab(base), seed)
        if not made.ops:
            continue
        [(_, line)] = replays(made.recording()).parts
        assert line is not None
        assert line.misfit_ns == 0, seed
        starts = {int(c): line.baseline.ops[i].start_ns + line.origin_ns for i, c in enumerate(line.ops.correlation)}
        assert starts == {op: start + base for op, (start, _) in made.ops.items()}
        begun = line.step_starts(line.baseline) + line.origin_ns
        assert begun.tolist() == [row["start_ns"] for row in made.rows["steps"]]
        assert line.ops.left_out == 0


def test_usual_costs_are_read_off_the_recording(lab, steps) -> None:
    [(_, line)] = replays(steps(lab(), 4).recording()).parts
    assert line.latency_ns == {"copy": 3, "kernel": 3, "graph": 3}


def test_an_operation_without_its_launch_or_times_is_left_out_and_counted(lab, steps) -> None:
    made = steps(lab(), 3)
    made.rows["spans"] = [row for row in made.rows["spans"] if (row["kind"], row["name"]) != ("launch", "sample")]
    made.rows["copies"][1]["correlation"] = None
    [(_, line)] = replays(made.recording()).parts
    assert line.ops.left_out == 4
    assert len(line.ops) == 3 * 5 - 4


def test_kernels_of_one_graph_launch_are_one_operation(lab, steps) -> None:
    made = steps(lab(), 3)
    graph = next(row for row in made.rows["spans"] if row["kind"] == "graph")
    middle = graph["start_ns"] + 100
    made.rows["spans"].append({**graph, "kind": "kernel", "start_ns": middle})
    graph["end_ns"] = middle
    made.rows["spans"] = made.rows["spans"][7:] + made.rows["spans"][:7]  # rows come in any order
    [(_, line)] = replays(made.recording()).parts
    assert len(line.ops) == 15
    merged = line.ops.index()[graph["correlation"]]
    assert (line.ops.start_ns[merged], line.ops.end_ns[merged]) == (graph["start_ns"], graph["start_ns"] + 488)


def test_nothing_to_replay_is_no_timeline(source) -> None:
    found = replays(source())
    assert found.first is None
    assert np.array([line is None for _, line in found.parts]).all()
