"""Batches in vLLM's grammar: what they mean, what is refused, and streams of steps that are exactly them."""

from __future__ import annotations

from collections import Counter

import pytest
from stepscope.errors import UsageError
from stepscope.workloads.case_grammar import Rows, parse_case
from stepscope.workloads.cases import case_workload
from stepscope.workloads.driver import deltas
from stepscope.workloads.regime_base import Seeded
from stepscope.workloads.workload import Workload


@pytest.mark.parametrize(
    ("text", "rows", "kinds"),
    [
        ("decode=32*1@8192", [Rows(32, 1, 8192)], ["decode"]),
        ("verify=16*4@4096:3", [Rows(16, 4, 4096, 3)], ["decode"]),
        ("prefill=8192", [Rows(1, 8192, 8192)], ["prefill"]),
        ("hit=2048@10240", [Rows(1, 2048, 10240)], ["hit"]),
        ("chunk=8192@40960c", [Rows(1, 8192, 40960, 0, True)], ["chunk"]),
        ("mix=8192,32*1@8192", [Rows(1, 8192, 8192), Rows(32, 1, 8192)], ["prefill", "decode"]),
        ("one=1", [Rows(1, 1, 1)], ["prefill"]),
        (" spaced = 2*1@4 , 8 ", [Rows(2, 1, 4), Rows(1, 8, 8)], ["decode", "prefill"]),
    ],
)
def test_a_case_is_read_as_vllm_reads_it(text: str, rows: list[Rows], kinds: list[str]) -> None:
    case = parse_case(text)
    assert list(case.rows) == rows
    assert [row.kind for row in case.rows] == kinds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("32*1@8192", "is no NAME=REQS"),
        ("=1", "is no NAME=REQS"),
        ("a b=1", "is no NAME=REQS"),
        ("d=", "'' in 'd=': expected [N*]Q[@K][c][:D]"),
        ("d=32*", "expected [N*]Q[@K][c][:D]"),
        ("d=1@8192,", "'' in 'd=1@8192,': expected"),
        ("d=-1", "expected [N*]Q[@K][c][:D]"),
        ("d=1.5", "expected [N*]Q[@K][c][:D]"),
        ("d=9999999999", "expected [N*]Q[@K][c][:D]"),
        ("d=0*1@4", "needs at least one request and one token"),
        ("d=0@4", "needs at least one request and one token"),
        ("d=8@4", "K counts the 8 tokens of the step too; give @8 or more"),
        ("v=4@64:2", "2 drafts are verified with 1 + 2 tokens behind others"),
        ("v=4:3", "3 drafts are verified with 1 + 3 tokens behind others"),
        ("c=64c", "c marks a prefill that goes on"),
        ("c=1@64c", "c marks a prefill that goes on"),
        ("v=4@64:3,1@64", "all decodes bring the same number of drafts"),
        ("c=32@64c,64@128c", "all chunks are of one"),
        ("c=32@64c,64", "no other prefill is longer"),
    ],
)
def test_what_is_no_case_is_refused_by_its_part(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_case(text)
    assert str(caught.value).startswith("workload.case: ")
    assert words in str(caught.value)


def built(text: str, steps: int = 5, **limits: object) -> Workload:
    return case_workload(text, Seeded(0, 100), steps, limits)


def batches(workload: Workload) -> list[Counter[tuple[int, int]]]:
    """(tokens, length with them) of each request, for each step of the regime; rejected drafts do not count."""
    assert workload.settle_steps is not None
    assert workload.regime_steps is not None
    prompts = {request.req_id: request.prompt_len for request in workload.requests}
    lengths: dict[str, int] = {}
    found = []
    for step, delta in enumerate(deltas(workload)):
        if step >= workload.settle_steps + workload.regime_steps:
            break
        lengths |= {new.req_id: new.num_computed_tokens for new in delta.new_requests}
        batch = Counter[tuple[int, int]]()
        for name, tokens in delta.num_scheduled_tokens.items():
            batch[tokens, lengths[name] + tokens] += 1
            decodes = lengths[name] >= prompts[name]
            lengths[name] += 1 if decodes else tokens
        if step >= workload.settle_steps:
            found.append(batch)
    return found


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("decode=8*1@300", lambda n: {(1, 300 + n): 8}),
        ("verify=4*4@64:3", lambda n: {(4, 64 + n): 4}),
        ("prefill=96", lambda n: {(96, 96): 1}),
        ("hit=2*32@96", lambda n: {(32, 96): 2}),
        ("chunk=32@160c", lambda n: {(32, 160 + 32 * n): 1}),
        ("mix=64,3*1@90,1@33", lambda n: {(64, 64): 1, (1, 90 + n): 3, (1, 33 + n): 1}),
        ("long=40*1@200,2*512", lambda n: {(1, 200 + n): 40, (512, 512): 2}),
        ("both=16@48,24,2*1@50", lambda n: {(16, 48): 1, (24, 24): 1, (1, 50 + n): 2}),
    ],
)
def test_every_step_of_the_regime_is_the_batch(text: str, batch: object) -> None:
    found = batches(built(text))
    assert len(found) >= 5
    assert [dict(one) for one in found] == [batch(n) for n in range(len(found))]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "chunks", "decodes"),
    [
        ("c=2*32@100c,2*1@60", (32, 100), 60),
        ("c=2*7@35c,2*1@300", (7, 35), 300),  # whose prompts are cut to 43 such chunks
    ],
)
def test_chunks_beside_decodes_begin_at_a_border_behind_the_length_asked_for(
    text: str, chunks: tuple[int, int], decodes: int
) -> None:
    found = batches(built(text))
    size, least = chunks
    first = min(length for tokens, length in found[0] if tokens == size)
    assert first >= least
    for n, batch in enumerate(found):
        assert dict(batch) == {(size, first + size * n): 2, (1, decodes + n): 2}


def test_given_limits_are_kept_and_the_others_fit(capsys: pytest.CaptureFixture[str]) -> None:
    workload = built("decode=8*1@300", max_num_batched_tokens=64, max_model_len=4096, num_blocks=500)
    config = workload.scheduler
    assert (config.max_num_batched_tokens, config.max_model_len, config.num_blocks) == (64, 4096, 500)
    assert config.max_num_seqs == 8
    assert batches(workload)[0] == Counter({(1, 300): 8})
    again = built("decode=8*1@300", max_num_batched_tokens=64, max_model_len=4096, num_blocks=500, block_size=16)
    assert again.requests == workload.requests


@pytest.mark.parametrize(
    ("text", "limits", "words"),
    [
        ("mix=64,3*1@90", {"max_num_batched_tokens": 32}, "32 is too small for 'mix=64,3*1@90', whose steps have 67"),
        ("hit=32@100", {}, "a hit of 68 tokens is no whole number of blocks of 16"),
        ("decode=8*1@300", {"max_model_len": 200}, "max_model_len"),
        ("decode=8*1@300", {"max_num_seqs": 4}, "max_num_seqs: 4 is too small for 'decode=8*1@300'"),
        ("verify=2*4@64:3", {"num_speculative_tokens": 2}, "is 2, but 'verify=2*4@64:3' verifies 3; leave it out"),
        ("decode=8*1@300", {"num_blocks": 20}, ""),
    ],
)
def test_limits_that_do_not_fit_are_refused(text: str, limits: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        built(text, **limits)
    assert words in str(caught.value)


def test_steps_last_as_long_as_asked_for() -> None:
    for steps in (1, 40):
        workload = built("mix=64,3*1@90", steps)
        assert workload.regime_steps is not None
        assert workload.regime_steps >= steps
    assert workload.name == "mix"
    assert "acceptance" not in workload.parameters
