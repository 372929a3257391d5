"""Greedy text equals Hugging Face's whatever buffers the copies reach and however the block tables travel."""

import pytest
from stepscope.runner.buffers.device_sets import DeviceSets
from stepscope.runner.inputs.prepare import InputPreparation
from stepscope.runner.inputs.step_inputs import GroupTensors

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


def test_mutant_attention_that_reads_the_other_sets_table(run, reference, monkeypatch):
    prepare = InputPreparation.prepare

    def wrong_parity(self, batch, delta):
        inputs = prepare(self, batch, delta)
        others = self._tensors[1 - inputs.buffer_set].groups
        inputs.groups = tuple(
            GroupTensors(other.block_table, own.slots) for own, other in zip(inputs.groups, others, strict=True)
        )
        return inputs

    monkeypatch.setattr(InputPreparation, "prepare", wrong_parity)
    outcome = run(reference.requests, copy_stream="dedicated", device_buffers="double", **TIGHT)
    assert outcome.outputs != reference.outputs


def test_mutant_sets_that_never_change_are_still_right_without_asynchrony(run, reference, monkeypatch):
    """What the switch is for shows in hazards and times, not in the text of a device that copies at once."""
    monkeypatch.setattr(DeviceSets, "advance", lambda self: None)
    outcome = run(reference.requests[:8], copy_stream="dedicated", device_buffers="double", **TIGHT)
    assert outcome.outputs == {request.req_id: reference.outputs[request.req_id] for request in reference.requests[:8]}


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "switches",
    [
        {"graph_mode": "full", "capture_sizes": (7, 16, 48)},
        {"staging": "fresh_pinned", "history": "pinned"},
        {"copy_stream": "dedicated", "device_buffers": "double", "batch_state": "stable_slots"},
        {"copy_stream": "dedicated", "device_buffers": "staged_d2d", "staging": "pageable"},
    ],
    ids=["graphs", "fresh", "double", "landing"],
)
def test_all_small_inputs_in_one_copy(run, reference, device, switches):
    if device == "sim":
        switches = {name: (8, 16, 32) if name == "capture_sizes" else value for name, value in switches.items()}
    outcome = run(reference.requests, device=device, h2d_packing="packed", **TIGHT, **switches)
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "switches",
    [
        {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 45), "device_buffers": "double"},
        {"batch_state": "stable_slots", "block_table_commit": "staged"},
        {"batch_state": "stable_slots", "block_table_commit": "full", "device_buffers": "double"},
        {"slot_mapping": "host", "commit_order": "last"},
    ],
    ids=["graphs", "staged", "full", "host"],
)
def test_the_device_reads_host_memory(run, reference, device, switches):
    if device == "sim":
        switches = {name: (8, 16, 32) if name == "capture_sizes" else value for name, value in switches.items()}
    outcome = run(reference.requests, device=device, staging="zero_copy", **TIGHT, **switches)
    assert outcome.outputs == reference.outputs
    assert not [row for row in outcome.copies if row[1] == "h2d"]
