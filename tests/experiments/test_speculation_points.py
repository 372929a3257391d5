"""Points with drafts: what a spec leaves open comes from the regime; synthetic drafts are known before the run."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.experiments.continuations import continuations_of, plain
from stepscope.experiments.loop import LoopLimits
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session
from stepscope.runner.config import RunnerConfig

SMALL = {"num_reqs": 3, "prompt_len": 9, "output_len": 12}


def point(runner: dict[str, object] | None = None, regime: str = "spec_rollback", **settings: object):
    tree = {
        "workload": {"regime": regime, "settings": SMALL | settings}, "device": "cpu",
        "runner": {"max_model_len": 64, "check": "every", **(runner or {})},
    }  # fmt: skip
    return resolve(tree)


def test_the_regime_says_how_many_drafts_and_of_what_kind() -> None:
    spec = point(num_speculative_tokens=3, acceptance="synthetic:all")
    assert (spec.runner.speculative, spec.runner.acceptance) == (3, "synthetic:all")
    assert workload_of(spec).scheduler.num_speculative_tokens == 3


def test_the_spec_wins() -> None:
    spec = point({"speculative": 2, "acceptance": "ngram"})
    assert (spec.runner.speculative, spec.runner.acceptance) == (2, "ngram")
    assert workload_of(spec).scheduler.num_speculative_tokens == 2
    other = point({"speculative": 2}, regime="steady")
    assert (other.runner.acceptance, workload_of(other).scheduler.num_speculative_tokens) == ("ngram", 2)
    assert point(regime="steady").runner.speculative == "off"
    with pytest.raises(UsageError, match="num_speculative_tokens"):
        point({"speculative": "off"})


def test_scheduler_and_runner_agree_on_the_number_of_drafts() -> None:
    tree = {
        "workload": {"regime": "steady", "scheduler": {"num_speculative_tokens": 3}}, "runner": {"speculative": 2},
        "device": "cpu",
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"num_speculative_tokens: is 3, but runner\.speculative is 2"):
        resolve(tree)
    del tree["runner"]
    assert resolve(tree).runner.speculative == 3


def test_an_impossible_combination_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match=r"runner\.correction: device corrects counts that are still in flight"):
        point({"correction": "device"})


@pytest.mark.parametrize(
    "runner",
    [
        {},
        {"token_handoff": "async_auto"},
        {"token_handoff": "async_auto", "correction": "device"},
        {"acceptance": "ngram", "ngram_min": 1},
        {"batch_state": "stable_slots", "block_table_commit": "staged"},
        {"batch_state": "rebuild", "token_handoff": "async_scatter", "correction": "device"},
    ],
    ids=lambda runner: ",".join(map(str, runner.values())) or "default",
)
def test_points_run_to_their_end_and_answer_in_full(tmp_path, runner: dict[str, object]) -> None:
    session = Session(point(runner), tmp_path)
    try:
        session.run(LoopLimits())
        outcome = session.finish(own_costs=False).outcome
    finally:
        session.close()
    assert outcome.stopped == "answered"
    assert outcome.tokens_got == outcome.tokens_expected == 36


def test_continuations_are_what_a_run_without_drafts_says() -> None:
    spec = point()
    known = continuations_of(spec, workload_of(spec))
    assert known is not None
    assert {req_id: (text.size, text.dtype) for req_id, text in known.items()} == {
        f"r{index}": (12, np.dtype(np.int32)) for index in range(3)
    }
    assert continuations_of(point({"acceptance": "ngram"}), workload_of(spec)) is None


def test_the_plain_runner_keeps_what_decides_the_text() -> None:
    config = RunnerConfig(model_seed=7, block_size=8, speculative=4, token_handoff="async_auto", graph_mode="full")
    assert plain(config) == RunnerConfig(model_seed=7, block_size=8)


def test_drafts_that_would_never_reach_the_scheduler_are_refused() -> None:
    # GIVEN tokens that stay in flight, and a scheduler that waits for them: it hears of drafts in results alone
    tree = {
        "workload": {"regime": "steady", "settings": SMALL, "scheduler": {"async_scheduling": False}}, "device": "cpu",
        "runner": {"speculative": 2, "token_handoff": "async_auto", "max_model_len": 64},
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"speculative: 2 with token_handoff async_auto.*; use token_handoff sync"):
        resolve(tree)
    tree["workload"]["scheduler"] = {}
    assert workload_of(resolve(tree)).scheduler.async_scheduling
