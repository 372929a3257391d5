"""Greedy text equals Hugging Face's whatever keeps the batch and however its block tables reach the device."""

import numpy as np
import pytest
from stepscope.runner.buffers.device_tables import ByIndexMap
from stepscope.runner.buffers.table_diffs import DiffTable

TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 170}
DESIGNS = [
    ("persistent", "dirty_rows"),
    ("persistent", "staged"),
    ("stable_slots", "full"),
    ("stable_slots", "dirty_rows"),
    ("stable_slots", "staged"),
    ("rebuild", "full"),
]


@pytest.fixture(scope="module")
def reference(reference, fewer):
    """Enough requests to be cut, preempted and resumed in the tight pool; test_equality.py runs all to their end."""
    return fewer(reference, 18, 20)


@pytest.mark.parametrize(
    ("device", "batch_state", "block_table_commit"),
    [*(("cpu", *design) for design in DESIGNS), ("sim", *DESIGNS[1]), ("sim", *DESIGNS[4])],
)
def test_chunks_preemptions_and_resumes(run, reference, device, batch_state, block_table_commit):
    outcome = run(
        reference.requests, device=device, batch_state=batch_state, block_table_commit=block_table_commit,
        check="every" if device == "cpu" and block_table_commit == "staged" else "sample", **TIGHT,
    )  # fmt: skip
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(("batch_state", "block_table_commit"), [DESIGNS[1], DESIGNS[4]])
@pytest.mark.parametrize(
    "switches",
    [
        {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 45), "copy_stream": "dedicated"},
        {"copy_stream": "dedicated", "device_buffers": "double", "commit_order": "last"},
        {"copy_stream": "dedicated", "device_buffers": "staged_d2d", "slot_mapping": "host", "token_gather": "cat"},
    ],
    ids=["graphs", "double", "landing"],
)
def test_together_with_other_switches(run, reference, switches, batch_state, block_table_commit):
    outcome = run(
        reference.requests, batch_state=batch_state, block_table_commit=block_table_commit, resets=(5, 20, 21),
        **TIGHT, **switches,
    )  # fmt: skip
    assert outcome.num_resumed >= 16
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"token_handoff": "async_scatter", "h2d_packing": "packed", "graph_mode": "full", "capture_sizes": (7, 23, 48)},
        {"token_handoff": "async_auto", "copy_stream": "dedicated", "device_buffers": "double"},
        {"speculative": 3, "h2d_packing": "packed", "staging": "pinned_single"},
        {"speculative": 2, "token_handoff": "async_auto", "staging": "zero_copy", "device_buffers": "double"},
        {"dispatch_rules": "v2", "graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 45)},
    ],
    ids=["ahead-packed", "ahead-double", "drafts-packed", "drafts-shared", "dispatch"],
)
def test_steps_ahead_and_drafts(run, reference, switches):
    """A padded graph reads tokens behind the last one: packed, none of them may be an older step's placeholder."""
    outcome = run(
        reference.requests, batch_state="stable_slots", block_table_commit="staged", **TIGHT, **switches
    )
    assert outcome.num_resumed > 0
    assert outcome.outputs == reference.outputs


def test_mutant_a_stale_index_map_changes_tokens(run, reference, monkeypatch):
    arrange, made = ByIndexMap.arrange, []

    def stale(self, rows):
        """The map of step 20 never arrives."""
        made.append(rows)
        if len(made) != 20:
            arrange(self, rows)

    monkeypatch.setattr(ByIndexMap, "arrange", stale)
    outcome = run(reference.requests, batch_state="stable_slots", block_table_commit="staged", **TIGHT)
    assert outcome.outputs != reference.outputs


def test_mutant_a_difference_forgotten_when_a_slot_changes_hands(run, reference, monkeypatch):
    """The device is told only what lies behind the blocks that the slot's former owner had there."""
    take = DiffTable.take

    def only_behind(self):
        there = self._there.copy()
        diffs = take(self)
        ends = diffs.starts + diffs.counts
        starts = np.minimum(np.maximum(diffs.starts, there[diffs.rows]), ends)
        counts = ends - starts
        return diffs._replace(starts=starts, counts=counts, num_ids=int(counts.sum()))

    monkeypatch.setattr(DiffTable, "take", only_behind)
    outcome = run(reference.requests, batch_state="stable_slots", block_table_commit="staged", **TIGHT)
    assert outcome.outputs != reference.outputs
