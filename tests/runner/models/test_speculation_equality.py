"""With drafts of any origin and any acceptance the greedy text is Hugging Face's, token for token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

TIGHT = {"max_num_seqs": 12, "num_blocks": 200}
CUT = {"max_num_batched_tokens": 64, "max_num_seqs": 12, "num_blocks": 90}


@pytest.fixture(scope="module")
def reference(reference):
    """Half of the requests: enough for a small pool."""
    some = reference.requests[:14]
    texts = {request.req_id: reference.outputs[request.req_id] for request in some}
    return replace(reference, requests=some, outputs=texts)


@pytest.fixture(scope="module")
def known(reference):
    """The continuations that synthetic drafts are taken from."""
    return {req_id: np.asarray(tokens, dtype=np.int32) for req_id, tokens in reference.outputs.items()}


@pytest.mark.parametrize("k", [1, 4, 7])
def test_drafts_by_lookup(run, reference, k):
    # GIVEN real drafts, chunked prompts and a pool that makes requests give way
    outcome = run(reference.requests, speculative=k, ngram_min=1, check="every", **CUT)
    # THEN some are right, some are wrong, and the text is the same
    assert outcome.num_cut > 5
    assert outcome.num_resumed > 0
    assert 0 < outcome.num_accepted < outcome.num_drafts
    assert outcome.held["draft_places"] > 10
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    ("acceptance", "k", "share"),
    [
        ("synthetic:all", 4, (0.85, 1.0)),  # the last drafts of a request lie behind what is known
        ("synthetic:none", 4, (0.0, 0.0)),
        ("synthetic:alternate", 7, (0.3, 0.5)),
        ("synthetic:0.6", 4, (0.2, 0.4)),
        ("synthetic:alternate", 1, (0.3, 0.5)),
    ],
)
def test_synthetic_drafts(run, reference, known, acceptance, k, share):
    outcome = run(reference.requests, known=known, speculative=k, acceptance=acceptance, check="every", **CUT)
    assert share[0] <= outcome.num_accepted / outcome.num_drafts <= share[1]
    assert outcome.num_resumed > 0
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"graph_mode": "full", "capture_sizes": (10, 25, 50, 100, 250)},
        {"graph_mode": "full_and_piecewise", "capture_sizes": (10, 25, 50, 100)},
        {"slot_mapping": "host", "copy_stream": "dedicated", "token_gather": "cat"},
        {"logits": "all_positions", "staging": "pageable", "slot_mapping": "torch"},
        {"copy_stream": "dedicated", "device_buffers": "double", "commit_order": "last"},
        {"device": "sim", "staging": "fresh_pinned"},
    ],
    ids=lambda switches: ",".join(map(str, switches.values())),
)
def test_other_strategies_verify_the_same_text(run, reference, known, switches):
    outcome = run(reference.requests, known=known, speculative=4, acceptance="synthetic:0.6", **TIGHT, **switches)
    assert outcome.num_accepted > 100
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize(
    "switches",
    [
        {"copy_stream": "dedicated", "device_buffers": "double", "commit_order": "last"},
        {"copy_stream": "dedicated", "device_buffers": "staged_d2d", "h2d_packing": "packed"},
        {"graph_mode": "full_and_piecewise", "capture_sizes": (10, 25, 50, 100), "device": "sim"},
        {"batch_state": "stable_slots", "block_table_commit": "staged", "slot_mapping": "torch"},
        {"batch_state": "rebuild", "token_handoff": "async_scatter", "reorder": "decode_first"},
    ],
    ids=lambda switches: ",".join(map(str, switches.values())),
)
def test_other_strategies_leave_the_correction_to_the_device(run, reference, known, switches):
    chosen = {"token_handoff": "async_auto"} | switches
    outcome = run(
        reference.requests, known=known, speculative=4, acceptance="synthetic:0.6", correction="device", **TIGHT,
        **chosen,
    )  # fmt: skip
    assert outcome.num_accepted > 100
    assert outcome.outputs == reference.outputs


def test_a_forced_reset_drops_drafts(run, reference, known):
    outcome = run(
        reference.requests, known=known, speculative=3, acceptance="synthetic:alternate", resets=(5, 12, 13),
        check="every", **TIGHT,
    )  # fmt: skip
    assert outcome.num_resumed >= 12
    assert outcome.outputs == reference.outputs


def test_accepted_drafts_save_steps(run, reference, known):
    plain = run(reference.requests)
    drafted = run(reference.requests, known=known, speculative=4, acceptance="synthetic:all")
    assert drafted.num_steps < plain.num_steps / 2


@pytest.mark.parametrize("acceptance", ["ngram", "synthetic:all", "synthetic:0.6", "synthetic:none"])
def test_two_steps_in_flight_with_counts_corrected_on_the_host(run, reference, known, acceptance):
    outcome = run(
        reference.requests, known=known, speculative=4, ngram_min=1, acceptance=acceptance, check="every",
        token_handoff="async_auto", **CUT,
    )  # fmt: skip
    assert outcome.num_resumed > 0
    assert (outcome.num_accepted > 0) == (acceptance != "synthetic:none")
    assert outcome.outputs == reference.outputs


@pytest.mark.parametrize("acceptance", ["synthetic:all", "synthetic:0.6", "synthetic:none", "synthetic:alternate"])
def test_two_steps_in_flight_with_counts_corrected_on_the_device(run, reference, known, acceptance):
    outcome = run(
        reference.requests, known=known, speculative=4, acceptance=acceptance, correction="device",
        token_handoff="async_auto", check="every", **CUT,
    )  # fmt: skip
    assert outcome.num_resumed > 0
    assert (outcome.num_accepted > 0) == (acceptance != "synthetic:none")
    assert outcome.outputs == reference.outputs
