"""Greedy text equals Hugging Face's whatever buffers the copies reach and however the block tables travel."""

import pytest
from stepscope.runner.buffers.device_sets import DeviceSets

TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 240}
SIZES = (7, 23, 45)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("device_buffers", ["double", "staged_d2d"])
@pytest.mark.parametrize(
    "switches",
    [
        {"graph_mode": "full_and_piecewise", "capture_sizes": SIZES},
        {"commit_order": "last", "slot_mapping": "torch"},
        {"slot_mapping": "host", "staging": "pinned_single"},
    ],
    ids=["graphs", "last", "host"],
)
def test_buffers_that_let_a_copy_run_beside_a_forward(run, reference, device, device_buffers, switches):
    if device == "sim":
        switches = {name: (8, 16, 32) if name == "capture_sizes" else value for name, value in switches.items()}
    outcome = run(
        reference.requests, device=device, copy_stream="dedicated", device_buffers=device_buffers, **TIGHT, **switches
    )
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs
    if "graph_mode" in switches:
        assert {mode for mode, _ in outcome.dispatch} >= {"full", "piecewise"}


def test_mutant_a_forward_that_reads_the_other_set(run, reference, monkeypatch):
    """Copies land in one set, and graphs, views and mappers follow the other: stale tables, changed tokens."""
    from stepscope.runner.buffers.destination import Destination

    monkeypatch.setattr(
        Destination, "gpu", property(lambda self: self.gpus[(self.sets.current + 1) % self.sets.count])
    )
    outcome = run(reference.requests, copy_stream="dedicated", device_buffers="double", **TIGHT)
    assert outcome.outputs != reference.outputs


def test_mutant_sets_that_never_change_are_still_right_without_asynchrony(run, reference, monkeypatch):
    """What the switch is for shows in hazards and times, not in the text of a device that copies at once."""
    monkeypatch.setattr(DeviceSets, "advance", lambda self: None)
    outcome = run(reference.requests[:8], copy_stream="dedicated", device_buffers="double", **TIGHT)
    assert outcome.outputs == {request.req_id: reference.outputs[request.req_id] for request in reference.requests[:8]}
