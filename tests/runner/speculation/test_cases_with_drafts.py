"""Public bug reports 4 (second part) and 9 (third case) under speculation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from stepscope.runner.invariants.view import host
from stepscope.workloads.step import PLACEHOLDER, CachedRequests, NewRequest, StepDelta

CASES = Path(__file__).resolve().parents[3].parent / "shared" / "cases"


def expected(number: int) -> dict[str, object]:
    path = CASES / str(number) / "expected.txt"
    if not path.exists():
        pytest.skip("no ../shared beside the checkout")
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {key.strip(): json.loads(value) for key, value in (line.split("=", 1) for line in lines)}


def new(request, blocks) -> NewRequest:
    return NewRequest(request.req_id, request.prompt_token_ids(), (tuple(blocks),))


def known_again(*entries) -> CachedRequests:
    """Entries (id, computed, outputs, history or None): no new blocks, nobody resumed."""
    ids, computed, outputs, histories = zip(*entries, strict=True)
    resent = {req_id: history for req_id, history in zip(ids, histories, strict=True) if history is not None}
    return CachedRequests(ids, (None,) * len(ids), computed, outputs, frozenset(), resent)


def case_4_third_step(build, requests, known):
    """Step 1 {A, B}, step 2 {A}, step 3 {A, B} with two placeholders for B; two steps in flight. The runner and what
    step 3 was made of.
    """
    runner = build(
        known, speculative=2, acceptance="synthetic:all", correction="device", token_handoff="async_auto", check="every"
    )
    seen = {}
    a, b = requests(2)  # prompts of 5 and 6 tokens
    drafts = (PLACEHOLDER, PLACEHOLDER)
    first = StepDelta(1, (new(a, [1, 2, 3, 4]), new(b, [5, 6, 7, 8])), num_scheduled_tokens={"r0": 5, "r1": 6})
    pending = [runner.submit(first)]
    second = StepDelta(
        2, cached=known_again(("r0", 5, 1, None)), num_scheduled_tokens={"r0": 3},
        scheduled_spec_decode_tokens={"r0": drafts},
    )  # fmt: skip
    pending.append(runner.submit(second))
    token = pending[0].result().sampled["r1"]
    history = np.concatenate([b.prompt_token_ids(), np.asarray(token, dtype=np.int32)])
    runner.observe(lambda point, facts: seen.update(facts) if point == "slot_mapping" else None)
    third = StepDelta(
        3, cached=known_again(("r0", 8, 4, None), ("r1", 6, 1, history)), num_scheduled_tokens={"r0": 3, "r1": 3},
        scheduled_spec_decode_tokens={"r0": drafts, "r1": drafts},
    )  # fmt: skip
    pending.append(runner.submit(third))
    return runner, seen["inputs"], [step.result() for step in pending], history


def test_case_4_a_request_absent_for_one_step_has_no_previous_row(build, requests, known) -> None:
    want = expected(4)
    runner, inputs, results, history = case_4_third_step(build, requests, known)
    ids = host(inputs.input_ids)[: inputs.num_tokens].tolist()
    row = inputs.req_ids.index("r1")
    start = int(inputs.query_start_loc[row])
    # THEN its input comes from its own history, not from a row of the step that it sat out
    assert ids[start] == history[-1]
    assert min(ids) >= want["min_input_id_step3_at_least"]
    # AND its placeholders are kept for nothing: they are verified by nobody's token
    kept = [draft for draft in host(inputs.speculation.drafts_gpu)[row].tolist() if draft >= 0]
    assert len(kept) == want["spec_tokens_kept_for_B_step3"]
    assert [result.sampled["r1"] for result in results if "r1" in result.sampled] == [
        (known["r1"][0],), (known["r1"][1],)
    ]  # fmt: skip
    # AND the other request goes on with what the device accepted in its absence: 1 + 3 + 3 tokens
    assert sum((result.sampled["r0"] for result in results), ()) == tuple(known["r0"][:7])
    assert runner.checks.report().held["draft_places"] == 2


def test_case_9_one_phantom_row_in_the_metadata(build, requests, known) -> None:
    want = expected(9)
    # GIVEN five requests with five drafts each, and graphs of 24 and 36 tokens
    runner = build(
        known, speculative=5, acceptance="synthetic:none", graph_mode="full_decode_only", capture_sizes=(24, 36),
        dispatch_rules="v1", check="every",
    )  # fmt: skip
    seen: list[dict] = []
    runner.observe(lambda point, facts: seen.append(facts) if point in ("attention_metadata", "slot_mapping") else None)
    asked = requests(5)
    blocks = [list(range(1 + 8 * index, 9 + 8 * index)) for index in range(5)]
    prompts = {request.req_id: request.prompt_len for request in asked}
    first = runner.execute(
        StepDelta(0, tuple(map(new, asked, blocks)), num_scheduled_tokens=prompts)
    )
    seen.clear()
    # WHEN all of them verify in one step
    runner.execute(
        StepDelta(
            1, cached=known_again(*((req_id, length, 1, None) for req_id, length in prompts.items())),
            num_scheduled_tokens=dict.fromkeys(prompts, 6), scheduled_spec_decode_tokens=first.drafts,
        )
    )  # fmt: skip
    common = next(facts["common"] for facts in seen if "common" in facts)
    inputs = next(facts["inputs"] for facts in seen if "inputs" in facts)
    plan = next(facts["plan"] for facts in seen if "plan" in facts)
    # THEN 30 tokens run as 36, with one phantom row that is empty
    assert inputs.num_tokens == want["case3_tokens"]
    assert plan.padded_tokens == want["case3_padded"]
    assert common.num_reqs - common.num_actual_reqs == want["case3_phantom_request_rows_in_metadata"]
    assert common.query_start_loc_cpu.tolist() == [0, 6, 12, 18, 24, 30, 30]
    assert host(common.query_start_loc).tolist() == [0, 6, 12, 18, 24, 30, 30]
    assert host(common.seq_lens).tolist()[-1] == 0
    # AND slots are mapped for the real requests only
    slots = host(inputs.slot_mapping)[:36].reshape(6, 6)
    assert int((slots >= 0).all(axis=1).sum()) == want["case3_real_requests_used_for_slot_mapping"]
    assert (slots[5] == -1).all()
