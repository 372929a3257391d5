"""Several KV cache groups and small kernel blocks: the greedy text is Hugging Face's with the same sliding windows."""

from dataclasses import replace

import numpy as np
import pytest
from stepscope.errors import BrokenInvariant
from stepscope.runner.attention import layers
from stepscope.runner.attention.layers import LayerMetadata
from stepscope.runner.inputs.slot_mapping import GroupMappers
from stepscope.runner.kv_groups import KVGroup
from stepscope.runner.state.block_table import BlockTable
from stepscope.runner.state.block_tables import BlockTables

TWO = {"kv_groups": ("full", "window=24")}
THREE = {"kv_groups": ("full", "window=24", "window=24"), "model": "tiny-6"}
TIGHT = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 180}
SOME = 14
"""Requests that most cases run: enough to be cut, preempted and resumed in the tight pool."""


def changed(outcome, reference):
    """Requests whose text is not the reference's."""
    return {req_id for req_id, tokens in outcome.outputs.items() if tokens != reference.outputs[req_id]}


def test_the_windows_change_the_text(reference, hybrid_reference):
    other = hybrid_reference[2].outputs
    assert sum(other[req_id] != text for req_id, text in reference.outputs.items()) > 20


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_two_groups_under_chunks_preemption_and_resume(run, hybrid_reference, device):
    outcome = run(hybrid_reference[2].requests[:SOME], device=device, check="every", **TWO, **TIGHT)
    assert outcome.num_cut > 10
    assert outcome.num_resumed > 2
    assert not changed(outcome, hybrid_reference[2])


@pytest.mark.parametrize(
    "switches",
    [
        {"slot_mapping": "host", "copy_stream": "dedicated", "commit_order": "last"},
        {"slot_mapping": "torch", "metadata_reuse": "per_layer", "block_size": 1, "num_blocks": 4096},
        {"graph_mode": "full_and_piecewise", "capture_sizes": (8, 16, 32, 48), "device": "sim"},
        {"graph_mode": "full", "capture_sizes": (7, 23, 45, 48)},
        {"kv_groups": ("full", "window=24/2"), "block_size": 8},
        {"block_size": 8, "kernel_block_size": 2, "graph_mode": "piecewise", "num_blocks": 240},
    ],
    ids=lambda switches: ",".join(map(str, switches.values())),
)
def test_switches_do_not_change_the_text_of_a_hybrid(run, hybrid_reference, switches):
    outcome = run(hybrid_reference[2].requests[:SOME], check="every", **(TWO | TIGHT | switches))
    assert not changed(outcome, hybrid_reference[2])


def test_three_groups(run, hybrid_reference):
    outcome = run(hybrid_reference[6].requests[:SOME], check="every", **THREE, **(TIGHT | {"num_blocks": 400}))
    assert outcome.num_resumed > 2
    assert not changed(outcome, hybrid_reference[6])


@pytest.mark.parametrize(("block_size", "kernel_block_size"), [(32, 16), (16, 4), (8, 1), (12, 4)])
def test_kernel_blocks_smaller_than_manager_blocks(run, reference, block_size, kernel_block_size):
    tight = TIGHT | {"num_blocks": 1 + 600 // block_size}
    outcome = run(
        reference.requests[:SOME], block_size=block_size, kernel_block_size=kernel_block_size, check="every", **tight
    )
    assert outcome.num_resumed > 2
    assert not changed(outcome, reference)


def test_a_forced_reset_of_groups_in_mid_flight(run, hybrid_reference):
    roomy = TIGHT | {"num_blocks": 500}
    outcome = run(hybrid_reference[2].requests[:SOME], resets=(5, 20, 21), check="every", **TWO, **roomy)
    assert outcome.num_resumed >= 12
    assert not changed(outcome, hybrid_reference[2])


def tables_swapped(monkeypatch):
    build = LayerMetadata.build
    monkeypatch.setattr(LayerMetadata, "build", lambda self, common, groups: build(self, common, groups[::-1]))


def one_block_too_many_nulled(monkeypatch):
    null_before = BlockTable.null_before
    monkeypatch.setattr(
        BlockTable, "null_before", lambda self, rows, counts: null_before(self, rows, np.where(counts, counts + 1, 0))
    )


def only_the_first_group_mapped(monkeypatch):
    monkeypatch.setattr(
        GroupMappers, "map", lambda self, batch, flat, consumes: self._first.map(batch, flat, consumes)
    )


def appended_in_the_first_group_only(monkeypatch):
    append = BlockTables.append_row
    monkeypatch.setattr(BlockTables, "append_row", lambda self, row, ids: append(self, row, (ids[0], ())))


def the_whole_sequence_seen(monkeypatch):
    monkeypatch.setattr(layers, "_of_spec", lambda common, spec, groups: replace_window(common, groups[spec.group]))


def replace_window(common, tensors):
    return replace(common, block_table=tensors.block_table, slot_mapping=tensors.slots, window=None)


MUTANTS = [
    (tables_swapped, None),
    (one_block_too_many_nulled, "row_ownership"),
    (only_the_first_group_mapped, "slot_ownership"),
    (appended_in_the_first_group_only, "row_ownership"),
    (the_whole_sequence_seen, None),
]


@pytest.mark.parametrize(
    ("mutant", "check"),
    MUTANTS,
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
def test_mutants_of_groups_are_found(run, hybrid_reference, monkeypatch, mutant, check):
    # GIVEN a runner that does one thing wrong, WHEN it is checked, THEN the check named after it breaks
    mutant(monkeypatch)
    few = hybrid_reference[2].requests[:12]
    roomy = {"num_blocks": 2048, "max_num_batched_tokens": 48}
    if check is not None:
        with pytest.raises(BrokenInvariant, match=check):
            run(few, check="every", **TWO, **roomy)
    # AND unchecked its text is another
    outcome = run(few, **TWO, **roomy)
    assert changed(outcome, hybrid_reference[2])


GRAPHS = {"capture_sizes": (4, 8, 16, 32, 48)}


@pytest.mark.parametrize("device", ["sim"])
@pytest.mark.parametrize("rules", ["v1", "v2"])
@pytest.mark.parametrize("graph_mode", ["full", "full_decode_only", "full_and_piecewise"])
def test_both_rule_sets(run, hybrid_reference, device, rules, graph_mode):
    outcome = run(
        hybrid_reference[2].requests[:SOME], device=device, graph_mode=graph_mode, dispatch_rules=rules, **GRAPHS,
        **TWO, **TIGHT,
    )  # fmt: skip
    assert not changed(outcome, hybrid_reference[2])
    assert "full" in {mode for mode, _ in outcome.dispatch}


@pytest.mark.parametrize("batch_state", ["persistent", "rebuild"])
@pytest.mark.parametrize("handoff", ["sync", "async_auto"])
def test_reordered_rows(run, hybrid_reference, batch_state, handoff):
    outcome = run(
        hybrid_reference[2].requests[:SOME], reorder="decode_first", batch_state=batch_state, token_handoff=handoff,
        check="every", graph_mode="full_and_piecewise", **GRAPHS, **TWO, **TIGHT,
    )  # fmt: skip
    assert outcome.num_resumed > 2
    assert not changed(outcome, hybrid_reference[2])


@pytest.mark.parametrize("commit", ["full", "dirty_rows", "staged"])
@pytest.mark.parametrize("batch_state", ["persistent", "stable_slots"])
def test_groups_in_every_batch_state_and_commit(run, hybrid_reference, batch_state, commit):
    outcome = run(
        hybrid_reference[2].requests[:SOME], batch_state=batch_state, block_table_commit=commit, check="every",
        kernel_block_size=2, **TWO, **TIGHT,
    )  # fmt: skip
    assert not changed(outcome, hybrid_reference[2])


@pytest.mark.parametrize(
    ("handoff", "correction"), [("sync", "host"), ("async_auto", "host"), ("async_auto", "device")]
)
@pytest.mark.parametrize("rules", ["v1", "v2"])
def test_drafts_in_a_hybrid(run, hybrid_reference, handoff, correction, rules):
    # GIVEN three drafts a step of which some are rejected, so that counts go back while windows move on
    reference = hybrid_reference[2]
    known = {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in reference.outputs.items()}
    outcome = run(
        reference.requests[:SOME], speculative=3, acceptance="synthetic:0.6", token_handoff=handoff, known=known,
        correction=correction, check="every", reorder="decode_first", dispatch_rules=rules,
        graph_mode="full_and_piecewise", **GRAPHS, **TWO, **(TIGHT | {"num_blocks": 400}),
    )  # fmt: skip
    assert 0 < outcome.num_accepted < outcome.num_drafts
    assert not changed(outcome, reference)
    assert "full" in {mode for mode, _ in outcome.dispatch}


def test_mutant_windows_that_trust_counts_in_flight(run, hybrid_reference, monkeypatch):
    # GIVEN counts that are corrected on the device, and windows that move on as if all drafts were accepted
    def trusting(self, num_computed):
        return np.maximum(num_computed - (self.window - 1), 0) // self.block_size * self.ratio

    reference = hybrid_reference[2]
    known = {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in reference.outputs.items()}
    drafting = {
        "speculative": 3, "acceptance": "synthetic:0.6", "token_handoff": "async_auto", "correction": "device",
        "known": known,
    }  # fmt: skip
    monkeypatch.setattr(KVGroup, "passed", trusting)
    # WHEN blocks are nulled that a rejected draft brings back into the window, THEN the text is another
    outcome = run(reference.requests[:SOME], **drafting, **TWO, **(TIGHT | {"num_blocks": 400}))
    assert changed(outcome, reference)
