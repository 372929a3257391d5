"""Ladders and the padding rule, against hand-made tables and, where it lies beside the checkout, vLLM's own output."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepscope.errors import UsageError
from stepscope.instrumentation.capture_sizes import (
    VllmOptions,
    default_ladder,
    padded_size_table,
    resolve_sizes,
    round_to_decodes,
    vllm_ladder,
)

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def oracle(group: str) -> list[dict]:
    path = SHARED / "oracles" / "runner_cases.json"
    if not path.exists():
        pytest.skip("the oracle file is not beside this checkout")
    return json.loads(path.read_text())["groups"][group]["cases"]


def test_oracle_capture_sizes():
    cases = oracle("capture_sizes")
    assert len(cases) == 14
    for case in cases:
        given_ = dict(case["in"])
        sizes = given_.pop("user_sizes")
        got = vllm_ladder(
            given_.pop("max_num_seqs"),
            given_.pop("max_num_batched_tokens"),
            VllmOptions(user_sizes=None if sizes is None else tuple(sizes), **given_),
        )
        assert list(got) == case["out"]["capture_sizes"], case["in"]
        assert got[-1] == case["out"]["max_capture_size"]


def test_oracle_capture_sizes_asserted():
    cases = oracle("capture_sizes_asserted")
    assert len(cases) == 8
    for case in cases:
        given_ = case["in"]
        sizes = given_["sizes"]
        options = VllmOptions(
            user_sizes=None if sizes is None else tuple(sizes),
            user_max=given_["max"],
            graphs=given_["mode"] != "NONE",
        )
        limits = (min(given_["mnbt"], 128), given_["mnbt"])
        if case["out"] == "error":
            with pytest.raises(UsageError):
                vllm_ladder(*limits, options)
        else:
            assert max(vllm_ladder(*limits, options), default=0) == case["out"], given_


def test_oracle_capture_sizes_spec_rounding_v1():
    rounded = [case for case in oracle("capture_sizes_spec_rounding_v1") if case["in"]["runner"] == "v1"]
    assert rounded
    for case in rounded:
        sizes = tuple(case["in"]["sizes"])
        assert list(round_to_decodes(sizes, case["in"]["query_len"], 2048)) == case["out"]


def test_rounding_to_decodes_leaves_out_what_the_buffers_cannot_hold():
    assert round_to_decodes((1, 4, 6, 8, 10), 3, 11) == (3, 6, 9)
    assert round_to_decodes((1, 2, 4), 1, 8) == (1, 2, 4)


def test_settings_with_drafts_reach_further():
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": 2048}
    assert resolve_sizes("exact", **limits, num_speculative_tokens=2) == tuple(range(1, 49))
    assert resolve_sizes("vllm", **limits, num_speculative_tokens=2) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48)


def test_oracle_bs_to_padded():
    cases = oracle("bs_to_padded")
    assert len(cases) == 4
    for case in cases:
        assert list(padded_size_table(case["in"]["capture_sizes"])) == case["out"]


@pytest.mark.parametrize(
    ("seqs", "tokens", "options", "expected"),
    [
        (1, 2048, {}, (1, 2)),
        (8, 2048, {"num_speculative_tokens": 2}, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48)),
        (11, 2048, {}, (1, 2, 4, 8, 11, 16)),
        (8, 8192, {"performance_mode": "interactivity"}, tuple(range(1, 17))),
        (8, 8, {"user_sizes": (1, 2, 4, 15)}, (1, 2, 4)),
        (128, 2048, {"user_sizes": (256, 1, 1)}, (1, 256)),
        (64, 9, {}, (1, 2, 4, 8, 9)),
        (64, 2048, {"graphs": False}, ()),
    ],
)
def test_vllm_ladder_by_hand(seqs, tokens, options, expected):
    assert vllm_ladder(seqs, tokens, VllmOptions(**options)) == expected


@pytest.mark.parametrize(("blackwell", "top", "count"), [(False, 512, 51), (True, 1024, 83)])
def test_vllm_ceiling(blackwell, top, count):
    sizes = vllm_ladder(4096, 8192, VllmOptions(blackwell_dc=blackwell))
    assert (sizes[-1], len(sizes)) == (top, count)


@pytest.mark.parametrize(("maximum", "below"), [(12, 8), (42, 40), (257, 256), (300, 288), (700, 688)])
def test_case_37_the_configured_maximum_is_kept(maximum, below):
    sizes = default_ladder(maximum)
    assert sizes[-2:] == (below, maximum)
    assert sizes[:3] == (1, 2, 4)
    # vLLM's own ladder, for contrast, stops at the rung below.
    assert vllm_ladder(8, 8192, VllmOptions(user_max=maximum))[-1] == below


@pytest.mark.parametrize(
    ("maximum", "num_tokens", "padded", "waste"),
    [(12, 9, 12, 0.25), (12, 12, 12, 0.0), (42, 41, 42, 1 / 42), (16, 9, 16, 0.4375)],
)
def test_case_37_padding(maximum, num_tokens, padded, waste):
    table = padded_size_table(default_ladder(maximum))
    assert (table[num_tokens], 1 - num_tokens / table[num_tokens]) == (padded, pytest.approx(waste))
    # AND one token more than the configured maximum has no size: the dispatcher runs it eagerly (above_max)
    assert len(table) == maximum + 1


@given(st.sets(st.integers(1, 300), min_size=1, max_size=20))
def test_the_table_agrees_with_the_definition(sizes):
    ordered = tuple(sorted(sizes))
    table = padded_size_table(ordered)
    assert len(table) == ordered[-1] + 1
    assert table[0] == 0
    for n in range(1, ordered[-1] + 1):
        assert table[n] == min(size for size in ordered if size >= n)


@pytest.mark.parametrize(
    ("setting", "maximum", "expected"),
    [
        ("default", None, (1, 2, 4, 8, 16, 20)),
        ("default", 12, (1, 2, 4, 8, 12)),
        ("vllm", 12, (1, 2, 4, 8)),
        ("exact", 5, (1, 2, 3, 4, 5)),
        ((8, 3, 8), None, (3, 8)),
        ([8, 3], 8, (3, 8)),
    ],
)
def test_settings(setting, maximum, expected):
    assert resolve_sizes(setting, max_num_seqs=10, max_num_batched_tokens=64, max_capture_size=maximum) == expected


@pytest.mark.parametrize(
    ("setting", "maximum", "message"),
    [
        ((8, 65), None, "capture_sizes: 65 is above the token buffers (max_num_batched_tokens = 64)"),
        ("default", 65, "max_capture_size: 65 is above the token buffers"),
        ((0, 8), None, "capture_sizes: 0 is not a size"),
        ((), None, "capture_sizes: the list is empty"),
        ((1, 8), 16, "max_capture_size: 16 contradicts capture_sizes, whose largest is 8"),
        ("defualt", None, "capture_sizes: 'defualt' is unknown; use default, vllm, exact"),
        ("exact", 0, "max_capture_size: 0 is not a size"),
    ],
)
def test_unusable_settings_are_one_line(setting, maximum, message):
    with pytest.raises(UsageError) as caught:
        resolve_sizes(setting, max_num_seqs=10, max_num_batched_tokens=64, max_capture_size=maximum)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
