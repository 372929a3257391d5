"""What would shorten a step: ranked by what it saves, bounds told from predictions, nothing below 1 % of a step."""

from __future__ import annotations

from stepscope.analysis.advice import IN_FLIGHT, HostWaits, advice, host_waits
from stepscope.analysis.what_if import Change, WhatIf, faster_phase, table_copies

RUNNER = {"runner": {"token_handoff": "sync"}}


def saves(change: Change, saved_ns: int | None, period_ns: int = 1_000) -> tuple[WhatIf, str]:
    return WhatIf(change, 9, period_ns, None if saved_ns is None else period_ns - saved_ns, saved_ns, None), "check"


def test_changes_are_ranked_by_what_they_save_and_small_ones_left_out() -> None:
    answers = [
        saves(table_copies(["block_table"], 0), 50),
        saves(faster_phase(), 200), saves(Change("graphs on"), 9), saves(Change("x"), None),
        saves(Change("twice as long"), -40),
    ]  # fmt: skip
    found = advice(answers, HostWaits(1_000, 100, 7), RUNNER)
    assert [(own.change, own.saved_ns, own.basis, own.steps) for own in found] == [
        ("preprocess -30%", 200, "predicted", 9), (IN_FLIGHT, 100, "at most", 7),
        ("copy of block_table free", 50, "at most", 9),
    ]
    assert found[0].share == 0.2


def test_two_steps_in_flight_are_advised_to_a_synchronous_runner_that_waits_only() -> None:
    waits = HostWaits(1_000, 100, 7)
    assert advice([], waits, {"runner": {"token_handoff": "async_auto"}}) == ()
    assert advice([], waits, {}) == ()
    assert advice([], HostWaits(1_000, 9, 7), RUNNER) == ()
    assert advice([], HostWaits(None, None, 0), RUNNER) == ()


def test_host_waits_are_means_over_counted_steps_that_know_both(source) -> None:
    step = {"start_ns": 0, "end_ns": 9, "warmup": False, "complete": True}
    found = host_waits(source(steps=[
        {**step, "step": 0, "period_ns": 100, "host_wait_ns": 10}, {**step, "step": 1, "period_ns": 200},
        {**step, "step": 2, "period_ns": 103, "host_wait_ns": 13},
        {**step, "step": 3, "period_ns": 999, "host_wait_ns": 99, "warmup": True},
    ]))  # fmt: skip
    assert found == HostWaits(101.5, 11.5, 2)
