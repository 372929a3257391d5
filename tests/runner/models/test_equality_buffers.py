"""Greedy text equals Hugging Face's whatever buffers the copies reach, packed or apart, and where nothing is copied."""

import pytest
from stepscope.runner.buffers.device_sets import DeviceSets
from stepscope.runner.inputs.prepare import InputPreparation
from stepscope.runner.inputs.step_inputs import GroupTensors

TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 170}
GRAPHS = {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 45)}
SIM_GRAPHS = {"graph_mode": "full_and_piecewise", "capture_sizes": (8, 16, 32), "device": "sim"}
DOUBLE = {"copy_stream": "dedicated", "device_buffers": "double"}
LANDING = {"copy_stream": "dedicated", "device_buffers": "staged_d2d"}
PACKED = {"h2d_packing": "packed"}
SHARED = {"staging": "zero_copy"}


@pytest.fixture(scope="module")
def reference(reference, fewer):
    """Enough requests to be cut, preempted and resumed in the tight pool; test_equality.py runs all to their end."""
    return fewer(reference, 18, 20)


@pytest.mark.parametrize(
    "switches",
    [
        DOUBLE | GRAPHS,
        DOUBLE | {"commit_order": "last", "slot_mapping": "torch", "device": "sim"},
        DOUBLE | {"slot_mapping": "host", "staging": "pinned_single"},
        LANDING | SIM_GRAPHS,
        LANDING | {"commit_order": "last", "slot_mapping": "torch"},
        LANDING | {"slot_mapping": "host", "staging": "pinned_single"},
        PACKED | SIM_GRAPHS,
        PACKED | {"staging": "fresh_pinned", "history": "pinned"},
        PACKED | DOUBLE | GRAPHS | {"batch_state": "stable_slots"},
        PACKED | LANDING | {"staging": "pageable"},
        SHARED | GRAPHS | {"device_buffers": "double"},
        SHARED | {"batch_state": "stable_slots", "block_table_commit": "staged", "device": "sim"},
        SHARED | {"batch_state": "stable_slots", "device_buffers": "double"},
        SHARED | {"slot_mapping": "host", "commit_order": "last"},
    ],
    ids=lambda switches: "-".join(map(str, switches.values())).replace(" ", ""),
)
def test_the_same_text(run, reference, switches):
    outcome = run(reference.requests, **(TIGHT | switches))
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs
    if "graph_mode" in switches:
        assert {mode for mode, _ in outcome.dispatch} >= {"full", "piecewise"}
    copies = {row[6] for row in outcome.copies if row[1] == "h2d"}
    assert (copies == set()) == (switches.get("staging") == "zero_copy")
    assert ("packed_inputs" in copies) == (switches.get("h2d_packing") == "packed")


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
