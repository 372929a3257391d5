"""The regime of drafts, and how many of them a synthetic acceptance lets be right."""

from __future__ import annotations

import gzip
import json

import pytest
from stepscope.errors import UsageError
from stepscope.workloads.acceptance import SyntheticAcceptance, num_right, parse_acceptance
from stepscope.workloads.driver import deltas, dry_run
from stepscope.workloads.regimes import build


def made(**parameters: object):
    return build("spec_rollback", seed=0, vocab_size=256, **parameters)


def test_defaults_are_the_recorded_stream(shared) -> None:
    # GIVEN vLLM's recording of 16 x 100/60 with four drafts, accepted in every other step
    path = shared / "oracles" / "sched_golden" / "v1_spec4_alternate_accept.jsonl.gz"
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file][1:]
    # WHEN the regime runs without a runner, THEN its steps are those
    for delta, row in zip(deltas(made()), rows, strict=True):
        assert dict(delta.num_scheduled_tokens) == row["sched"]
        assert {name: len(own) for name, own in delta.scheduled_spec_decode_tokens.items()} == row["spec"]
        assert list(delta.cached.num_computed_tokens) == [known["computed"] for known in row["cached"]]


@pytest.mark.parametrize(("acceptance", "steps"), [("all", 13), ("none", 60), ("alternate", 21)])
@pytest.mark.parametrize("k", [1, 4, 7])
def test_every_acceptance_answers_everything(k: int, acceptance: str, steps: int) -> None:
    workload = made(num_speculative_tokens=k, acceptance=f"synthetic:{acceptance}")
    shapes = dry_run(workload)
    assert sum(shape.num_finished for shape in shapes) == 16
    if k == 4:  # a step with the prompts, the decodes, and one that tells of the end
        assert len(shapes) == steps + 1
    # THEN the window holds the steps in which all rows verify all drafts
    window = shapes[workload.settle_steps : workload.settle_steps + workload.regime_steps]
    assert {shape.num_tokens for shape in window} == {16 * (1 + k)}


def test_two_steps_in_flight() -> None:
    workload = made(async_scheduling=True, acceptance="synthetic:0.6")
    assert workload.steps_in_flight == 2
    assert sum(shape.num_finished for shape in dry_run(workload)) == 16


def test_rates_are_geometric_and_the_same_in_every_run() -> None:
    acceptance = parse_acceptance("synthetic:0.6")
    assert acceptance == SyntheticAcceptance("rate", 0.6)
    counts = [num_right(acceptance, (f"r{i}", i % 7), 0, 4) for i in range(20_000)]
    shares = [counts.count(right) / len(counts) for right in range(5)]
    assert shares == pytest.approx([0.4, 0.24, 0.144, 0.0864, 0.1296], abs=0.01)
    assert counts[:50] == [num_right(acceptance, (f"r{i}", i % 7), 3, 4) for i in range(50)]
    assert {num_right(parse_acceptance("synthetic:1"), ("r", 1), 0, 4)} == {4}
    assert {num_right(parse_acceptance("synthetic:0"), ("r", 1), 0, 4)} == {0}


def test_turns() -> None:
    alternate = parse_acceptance("synthetic:alternate")
    assert [num_right(alternate, ("r", 9), turn, 4) for turn in range(4)] == [0, 4, 0, 4]
    assert parse_acceptance("ngram") is None


def test_unfit_parameters_are_one_line() -> None:
    with pytest.raises(UsageError, match="num_speculative_tokens is 0"):
        made(num_speculative_tokens=0)
    with pytest.raises(UsageError, match="acceptance: unknown value 'half'"):
        made(acceptance="half")
