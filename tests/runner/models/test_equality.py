"""Schedule, execute, update: the whole runner's greedy text equals Hugging Face's, token for token."""

from dataclasses import replace

import pytest
from stepscope.runner.inputs.prepare import InputPreparation
from stepscope.runner.sampling.sampler import Sampler
from stepscope.runner.state.block_tables import BlockTables
from stepscope.runner.state.update import WorkerState
from stepscope.workloads.step import SamplingParams

TIGHT = {"max_num_seqs": 16, "num_blocks": 240}


@pytest.mark.parametrize(("block_size", "commit_order"), [(1, "first"), (4, "first"), (4, "last"), (16, "last")])
def test_chunked_prefill_preemption_and_resume(run, reference, block_size, commit_order):
    # GIVEN a budget that cuts most prompts and a pool that cannot hold all that run
    tight = {"max_num_batched_tokens": 48, "max_num_seqs": 16, "num_blocks": 1 + 960 // block_size}
    # WHEN the requests run to their end
    outcome = run(reference.requests, block_size=block_size, commit_order=commit_order, **tight)
    # THEN prompts were cut, requests preempted and resumed, and nobody can tell from the text
    assert outcome.num_cut > 20
    assert outcome.num_resumed > 3
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    ("graph_mode", "modes"),
    [
        ("full", {"full"}),
        ("piecewise", {"piecewise"}),
        ("full_decode_only", {"full", "none"}),
        ("full_and_piecewise", {"full", "piecewise"}),
    ],
)
def test_padded_graphs(run, reference, graph_mode, modes):
    # GIVEN captured sizes that no number of tokens meets exactly, but the largest
    sizes = (7, 23, 45, 256)
    outcome = run(reference.requests, graph_mode=graph_mode, capture_sizes=sizes, **TIGHT)
    assert {mode for mode, _ in outcome.dispatch} == modes
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"slot_mapping": "host", "copy_stream": "dedicated", "token_gather": "cat"},
        {"slot_mapping": "torch", "staging": "pageable", "logits": "all_positions"},
        {"staging": "fresh_pinned"},
        {"device": "sim", "graph_mode": "full_and_piecewise", "capture_sizes": (8, 16, 32)},
    ],
    ids=lambda switches: ",".join(map(str, switches.values())),
)
def test_other_strategies_give_the_same_text(run, reference, switches):
    assert run(reference.requests, **(TIGHT | switches)).outputs == reference.outputs


def test_a_forced_reset_in_mid_flight(run, reference):
    outcome = run(reference.requests, resets=(5, 20, 21), **TIGHT)
    assert outcome.num_resumed >= 16
    assert outcome.outputs == reference.outputs


def test_drawn_text_does_not_depend_on_chunks_preemptions_or_neighbours(run, reference):
    # GIVEN requests that sample, every other with a seed of its own
    requests = [
        replace(request, sampling=SamplingParams(0.8, top_k=40, top_p=0.95, seed=i if i % 2 else None))
        for i, request in enumerate(reference.requests[:16])
    ]
    # WHEN they run at ease, and in chunks with preemptions beside greedy requests
    at_ease = run(requests).outputs
    pressed = run([*requests, *reference.requests[16:]], max_num_batched_tokens=48, num_blocks=180)
    # THEN each has the same text
    assert pressed.num_resumed > 3
    assert {req_id: pressed.outputs[req_id] for req_id in at_ease} == at_ease
    assert changed(at_ease, reference) == at_ease.keys()


def changed(outputs, reference):
    """Requests whose text is not the reference's."""
    return {req_id for req_id, tokens in outputs.items() if tokens != reference.outputs[req_id]}


def test_planted_slot_plus_one_changes_tokens(run, reference, monkeypatch):
    prepare = InputPreparation.prepare

    def shifted(self, batch, delta):
        inputs = prepare(self, batch, delta)
        inputs.slot_mapping[: inputs.num_tokens] += 1
        return inputs

    monkeypatch.setattr(InputPreparation, "prepare", shifted)
    assert len(changed(run(reference.requests, num_blocks=4096).outputs, reference)) == 32


def test_planted_stale_block_changes_tokens(run, reference, monkeypatch):
    commit, commits = BlockTables.commit, []

    def stale(self, num_reqs):
        """The table of step 30 never arrives; the step after brings it up to date."""
        commits.append(num_reqs)
        if len(commits) == 30:
            return ()
        return commit(self, num_reqs)

    monkeypatch.setattr(BlockTables, "commit", stale)
    assert changed(run(reference.requests).outputs, reference)


def test_planted_append_on_resume_changes_tokens(run, reference, monkeypatch):
    merge = WorkerState._merge_cached

    def appending(self, cached, step):
        before = {req_id: self.requests[req_id].block_ids[0][:] for req_id in cached.resumed_req_ids}
        arriving = merge(self, cached, step)
        for req_id, blocks in before.items():
            self.requests[req_id].block_ids = (blocks + self.requests[req_id].block_ids[0],)
        return arriving

    monkeypatch.setattr(WorkerState, "_merge_cached", appending)
    assert changed(run(reference.requests, max_model_len=512, **TIGHT).outputs, reference)


def test_planted_discard_mask_off_changes_tokens(run, reference, monkeypatch):
    sample = Sampler.sample

    def undiscarded(self, hidden, inputs, sampling):
        inputs.discard[:] = False
        return sample(self, hidden, inputs, sampling)

    monkeypatch.setattr(Sampler, "sample", undiscarded)
    outcome = run(reference.requests, max_num_batched_tokens=48)
    assert len(changed(outcome.outputs, reference)) > 20
