"""Drafts verified and accepted over the counted steps; accepted length weighs requests, not steps."""

from __future__ import annotations

import pytest
from stepscope.analysis.compare_settings import differing_work
from stepscope.analysis.speculation import NO_DRAFTS, NOT_RECORDED, speculation
from stepscope.analysis.summary import summarise
from stepscope.analysis.tables import processes

STEP = {"start_ns": 0, "end_ns": 9, "warmup": False, "complete": True}


def steps_of(source, *figures: tuple[int | None, int | None, int | None], warmup: int = 0):
    names = ("drafted_reqs", "drafted_tokens", "accepted_tokens")
    return source(steps=[
        {**STEP, "step": at, "warmup": at < warmup, **dict(zip(names, own, strict=True))}
        for at, own in enumerate(figures)
    ])  # fmt: skip


def test_lengths_are_weighted_by_requests(source) -> None:
    # GIVEN a warm-up step, a prefill, steps of 1 and 9 requests of which the second accepted more, one not come back
    found = speculation(steps_of(source, (9, 9, 9), (0, 0, 0), (1, 4, 0), (9, 36, 18), (9, 36, None), warmup=1))
    assert (found.steps, found.drafted_reqs, found.drafted_tokens, found.accepted_tokens) == (2, 10, 40, 18)
    assert found.lengths.tolist() == [1.0, 3.0]
    assert found.accepted_length == pytest.approx(2.8)
    assert found.accepted_share == 0.45


@pytest.mark.parametrize(("figures", "reason"), [
    (((0, 0, 0), (0, 0, 0)), NO_DRAFTS), (((None, None, None),), NOT_RECORDED), ((), NOT_RECORDED),
])  # fmt: skip
def test_without_drafts_everything_is_null_and_says_why(source, figures, reason: str) -> None:
    found = summarise(steps_of(source, *figures))
    for name in ("drafted_tokens", "accepted_tokens", "accepted_length_mean", "accepted_token_share"):
        assert found.metrics[name] is None
        assert found.reasons[name] == reason


def test_two_runs_that_accept_differently_did_different_work(source) -> None:
    (a,), (b,) = (processes(steps_of(source, (2, 8, accepted))) for accepted in (2, 6))
    assert [(own.name, own.a, own.b) for own in differing_work(a, b)] == [
        ("accepted length: tokens a request and step (mean)", "2", "4")
    ]
    assert differing_work(a, a) == ()
