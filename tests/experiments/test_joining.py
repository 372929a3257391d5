"""A runner that joins late runs the same steps as one that was there from the beginning."""

from __future__ import annotations

from contextlib import closing

import pytest
from stepscope.experiments.joining import JoinsLate
from stepscope.experiments.loop import LoopLimits, StepLoop
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session

JOINED, STEPS = 25, 30
REQUESTS = {
    "num_requests": 60, "prompt": {"kind": "uniform", "low": 4, "high": 40},
    "output": {"kind": "uniform", "low": 2, "high": 30},
}  # fmt: skip
RUNNER = {
    "model": "micro", "check": "every", "max_num_seqs": 12, "max_num_batched_tokens": 48, "max_model_len": 80,
    "block_size": 4, "num_blocks": 400,
}  # fmt: skip
FIGURES = ("num_reqs", "num_tokens", "kv_tokens_sum", "kv_tokens_max", "num_preempted", "num_finished", "num_decode")


def steps_of(spec, folder, joined):
    """Figures by step from JOINED on, of a runner that joins in step `joined`; and the answered requests."""
    with closing(Session(spec, folder)) as session:
        workload = workload_of(spec)
        late = JoinsLate(session.runner, session.device, workload, joined)
        session.loop = StepLoop(workload, late, session.probe, session.device)
        session.run(LoopLimits(warmup_steps=JOINED, steps=0))
        session.run(LoopLimits(warmup_steps=JOINED, steps=STEPS))
        measured = session.finish(own_costs=False)
    frame = measured.recording.table("steps").set_index("step")
    return frame.loc[frame.index >= JOINED, list(FIGURES)], measured


@pytest.mark.parametrize(
    ("runner", "scheduler"),
    [
        ({"num_blocks": 45}, {}),  # which preempts
        ({}, {"long_prefill_token_threshold": 8}),
        ({"token_handoff": "async_auto"}, {}),
        ({"kv_groups": ["full", "window=8"], "model": "tiny"}, {}),
    ],
    ids=["preempted", "chunked", "async", "groups"],
)
def test_the_steps_are_those_of_a_runner_that_was_there(tmp_path, runner, scheduler):
    spec = resolve({
        "workload": {"generator": REQUESTS, "scheduler": scheduler}, "runner": {**RUNNER, **runner}, "device": "sim",
    })  # fmt: skip
    expected, _ = steps_of(spec, tmp_path / "there", 0)
    found, measured = steps_of(spec, tmp_path / "late", JOINED)
    # THEN each step has the same requests at the same lengths, except that those who join are met for the first time
    assert len(expected) == STEPS
    assert expected["num_finished"].sum() > 3
    assert ("num_blocks" in runner) == (expected["num_preempted"].sum() > 0)
    lower = found["num_finished"].sum()
    assert 0 < lower <= expected["num_finished"].sum()  # who ended in the last step before is never told of
    assert found.drop(columns=["num_finished", "num_decode"]).equals(
        expected.drop(columns=["num_finished", "num_decode"])
    )
    # AND what the invariants look at holds in each of them
    assert measured.checks.steps_checked >= STEPS


@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_drafts_of_those_who_join_are_verified(tmp_path, handoff):
    spec = resolve({
        "workload": {"generator": REQUESTS}, "device": "sim",
        "runner": {**RUNNER, "speculative": 2, "acceptance": "synthetic:alternate", "token_handoff": handoff},
    })  # fmt: skip
    found, measured = steps_of(spec, tmp_path / "late", JOINED)
    assert len(found) == STEPS
    assert measured.checks.steps_checked == STEPS
