"""A spec with decode context parallelism: blocks of the scheduler lie on all ranks, and the recording says whose rows
it has.
"""

import msgspec
import pytest
from stepscope.errors import UsageError
from stepscope.experiments.continuations import plain
from stepscope.experiments.loop import LoopLimits
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session


def resolved(regime, runner, device="cpu", **settings):
    return resolve({"device": device, "workload": {"regime": regime, "settings": settings}, "runner": runner})


def test_a_block_of_the_scheduler_lies_on_all_ranks():
    # GIVEN a size for each rank, THEN the scheduler's block has both ranks' tokens
    given = resolved("steady", {"dcp": 2, "block_size": 8})
    assert (given.runner.block_size, workload_of(given).scheduler.block_size) == (8, 16)
    # AND without a size the workload's own is a rank's
    for regime, size in (("steady", 16), ("kernel_blocks", 32)):
        spec = resolved(regime, {"dcp": 3})
        assert (spec.runner.block_size, workload_of(spec).scheduler.block_size) == (size, 3 * size)
    # AND a resolved point resolves to itself
    assert resolve(msgspec.to_builtins(given)) == given


def test_ranks_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match=r"runner.dcp: 0 is below 1"):
        resolved("steady", {"dcp": 0})
    with pytest.raises(UsageError, match=r"runner.kv_groups: \('full', 'window=64'\) with dcp 2"):
        resolved("hybrid", {"dcp": 2})


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_recording_tells_of_ranks_side_by_side(device, tmp_path):
    # GIVEN drafts that are all right, for which the text must be known before
    runner = {"dcp": 2, "dcp_interleave": 4, "speculative": 2, "acceptance": "synthetic:all", "max_model_len": 64}
    spec = resolved("steady", runner | {"check": "every"}, device, num_reqs=3, prompt_len=9)
    assert plain(spec.runner).dcp == 2
    session = Session(spec, tmp_path)
    try:
        session.run(LoopLimits())
        recording = session.finish(own_costs=False).recording
    finally:
        session.close()
    steps = recording.tables["steps"]
    assert steps["accepted_tokens"].sum() == steps["drafted_tokens"].sum() > 0
    reason = recording.meta.reason("spans", "rank")
    assert reason.startswith("the 2 ranks of dcp ran side by side in this process")
    assert ("charged as attention over one cache" in reason) == (device == "sim")
