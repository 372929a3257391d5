"""Requests that draw their tokens, with drafts: the same text in every run of one set-up, and full length."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stepscope.workloads.step import SamplingParams


@pytest.mark.parametrize(
    "switches",
    [
        {"acceptance": "ngram", "ngram_min": 1},
        {"acceptance": "synthetic:all", "token_handoff": "async_auto"},
        {"acceptance": "synthetic:all", "token_handoff": "async_auto", "correction": "device"},
    ],
    ids=["sync", "host", "device"],
)
def test_drawn_texts_are_the_same_in_every_run(run_all, requests, known, switches) -> None:
    # GIVEN greedy requests beside ones that draw, some with a seed of their own or limited to the best tokens
    plain = requests(6)
    drawn = [
        replace(request, sampling=SamplingParams(0.9, top_k=8 * (index % 2), seed=index if index > 2 else None))
        for index, request in enumerate(plain[:5])
    ]
    asked = [*drawn, plain[5]]
    # WHEN they are served twice, every step checked
    first = run_all(asked, known, speculative=3, check="every", **switches)
    second = run_all(asked, known, speculative=3, check="every", **switches)
    # THEN both texts are equal and complete, the greedy one is the model's, and the others went their own way
    assert first == second
    assert {len(text) for text in first.values()} == {20}
    assert first["r5"] == tuple(known["r5"])
    assert all(first[request.req_id] != tuple(known[request.req_id]) for request in drawn)
