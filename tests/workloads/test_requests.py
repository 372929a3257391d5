from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.workloads.requests import PrefixHashes, Request
from stepscope.workloads.seeds import generator


def test_a_stream_is_fixed_for_good() -> None:
    assert generator(0, "arrivals").integers(0, 1000, 4).tolist() == [884, 541, 393, 821]


def test_streams_differ_by_name_and_by_seed() -> None:
    draws = {tuple(generator(seed, name).integers(0, 1 << 30, 4)) for seed in (0, 1) for name in ("a", "b", "1\x00a")}
    assert len(draws) == 6


def test_a_prompt_is_the_same_in_another_process() -> None:
    request = Request("r1", 20, 1, 100, seed=3)
    code = (
        "from stepscope.workloads.requests import Request;"
        "print(Request('r1', 20, 1, 100, seed=3).prompt_token_ids().tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(request.prompt_token_ids().tolist())


def test_a_prompt_has_its_length_and_stays_in_the_vocabulary() -> None:
    tokens = Request("r", 1000, 1, 7).prompt_token_ids()
    assert (len(tokens), tokens.dtype, tokens.min(), tokens.max()) == (1000, np.int32, 0, 6)


def test_prompts_of_different_requests_differ() -> None:
    prompts = {tuple(Request(f"r{i}", 16, 1, 100).prompt_token_ids()) for i in range(50)}
    assert len(prompts) == 50


def test_equal_hash_prefixes_are_equal_token_prefixes_and_no_more() -> None:
    # GIVEN two prompts that share two of three blocks, the last one partial
    a = Request("a", 44, 1, 1000, prefix=PrefixHashes(16, (5, 6, 7))).prompt_token_ids()
    b = Request("b", 40, 1, 1000, prefix=PrefixHashes(16, (5, 6, 8))).prompt_token_ids()
    assert np.array_equal(a[:32], b[:32])
    assert not np.array_equal(a[32:40], b[32:40])
    # AND a shorter prompt of the same ids is a cut of the longer one
    c = Request("c", 35, 1, 1000, prefix=PrefixHashes(16, (5, 6, 7))).prompt_token_ids()
    assert np.array_equal(a[:35], c)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt_len": 0}, "request r: prompt_len is 0"),
        ({"output_len": 0}, "request r: output_len is 0"),
        ({"vocab_size": 0}, "request r: vocab_size is 0"),
        ({"arrival_ns": -1}, "request r: arrival_ns is -1"),
        ({"prompt_len": 33, "prefix": PrefixHashes(16, (1, 2))}, "2 prefix hashes of 16 tokens do not cover"),
    ],
)
def test_unfit_requests_are_refused_by_name(fields: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Request(**{"req_id": "r", "prompt_len": 8, "output_len": 1, "vocab_size": 10, **fields})
