"""Runs with two steps in flight: what a spec asks for, and that their figures close."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.experiments.loop import LoopLimits
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session

STEADY = {"regime": "steady", "settings": {"num_reqs": 8, "prompt_len": 16}}


def spec(workload=STEADY, handoff="async_auto", **measure):
    runner = {"token_handoff": handoff, "model": "micro", "check": "every"}
    return resolve({"workload": workload, "runner": runner, "device": "sim", "measure": {"steps": 24, **measure}})


def test_an_asynchronous_hand_off_schedules_ahead() -> None:
    workload = workload_of(spec())
    assert workload.scheduler.async_scheduling
    assert workload.steps_in_flight == 2
    plain = workload_of(spec(handoff="sync"))
    assert not plain.scheduler.async_scheduling
    assert plain.steps_in_flight == 1


def test_a_spec_may_leave_it_out() -> None:
    workload = workload_of(spec({**STEADY, "scheduler": {"async_scheduling": False}}))
    assert workload.steps_in_flight == 1


@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_alternating_never_schedules_ahead_and_always_has_two_steps(handoff: str) -> None:
    workload = workload_of(spec({"regime": "alternating"}, handoff))
    assert not workload.scheduler.async_scheduling
    assert workload.steps_in_flight == 2


def test_a_synchronous_runner_cannot_run_ahead_of_its_tokens() -> None:
    with pytest.raises(UsageError, match="token_handoff: sync cannot run ping_pong, whose requests are scheduled"):
        spec({"regime": "ping_pong"}, "sync")


@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_the_figures_of_a_run_close(tmp_path, handoff: str) -> None:
    # WHEN a steady batch runs to its end
    point = spec(handoff=handoff)
    with closing(Session(point, tmp_path / "r")) as session:
        session.run(LoopLimits(warmup_steps=point.measure.warmup_steps or 0, steps=24))
        measured = session.finish(own_costs=False)
    # THEN all is answered as counted, and every check held
    assert measured.checks.steps_checked == measured.checks.steps_seen
    steps = measured.recording.table("steps").iloc[:-1]
    waits = measured.recording.table("waits")
    phases = measured.recording.table("phases")
    between = phases[phases["name"] == "between_steps"].set_index("step")["host_ns"].reindex(steps["step"]).to_numpy()
    inside = np.array([
        sum(
            end - start for start, end in zip(waits["start_ns"], waits["end_ns"], strict=True)
            if row.start_ns <= start < row.end_ns
        )
        for row in steps.itertuples()
    ])  # fmt: skip
    # AND the period of each step is its own work, its waits, and what lay between it and the next
    assert (steps["host_busy_ns"].to_numpy() + inside + between == steps["period_ns"].to_numpy()).all()
    assert (steps["host_wait_ns"].to_numpy() >= inside).all()
    duration = steps["end_ns"] - steps["start_ns"]
    if handoff == "sync":
        assert (steps["latency_ns"] == duration).all()
    else:
        # tokens are seen in the time of the step behind: before that one's period ends, after its own part has
        assert (steps["latency_ns"] > duration).all()
        later = steps["start_ns"].to_numpy() + steps["latency_ns"].to_numpy()
        assert (later[:-2] > steps["end_ns"].to_numpy()[1:-1]).all()
        assert (later[:-2] < steps["start_ns"].to_numpy()[2:]).all()


def test_a_block_leaves_nothing_in_flight(tmp_path) -> None:
    # GIVEN a session that takes turns with others
    point = spec(blocks=2, block_steps=5, settle_steps=2)
    with closing(Session(point, tmp_path / "r")) as session:
        session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0))
        # WHEN it runs a block
        starts = session.block(2, 5)
        # THEN its periods are of steps with another one in flight, the last of them too
        assert len(starts) == 6
        assert session.probe.last_start_ns == starts[-1]
        measured = session.finish(own_costs=False)
    steps = measured.recording.table("steps")
    counted = steps[~steps["warmup"]]
    assert len(counted) == 5
    collected = counted["start_ns"] + counted["latency_ns"]
    assert (collected.to_numpy()[:-1] > counted["end_ns"].to_numpy()[1:]).all()
    assert collected.iloc[-1] > starts[-1]
