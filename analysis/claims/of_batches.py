"""Claims about the host's side of a batch: E7, E8, E9 and E15."""

from __future__ import annotations

from .claim import Claim, Finding
from .figures import Difference, Level, Ratio, Removed
from .points import Where

ROWS = "workload.settings.num_reqs"
TOKENS = "runner.max_num_batched_tokens"
US = 1_000.0
QUIET = {"measure.device_events": False}
"""Without events around device operations: they are the host's work as well."""
BUILD, SLOTS, UPDATE, WAIT = "build_indices_ns", "slot_mapping_ns", "update_states_ns", "host_wait_ns"


def _gather(rows: int, low: float | None, high: float | None, expected: str) -> Finding:
    where, words = {ROWS: rows, **QUIET}, f"{rows} row{'s' if rows > 1 else ''}"
    return Finding(
        f"index building, cat - index_select, {words}", Difference(where, "cat", "index_select", BUILD), words, low,
        high, expected, "host", Ratio(where, "cat", "index_select", BUILD),
    )  # fmt: skip


_MOST = {ROWS: 1024, **QUIET}
E7 = Claim(
    "E7",
    "Gathering the tokens by one index_select beats a list of slices from 16 rows on, by 200 us or more at 256 rows and"
    " 1 ms or more at 1024; at one row the list is no slower.",
    "`token_gather`: index_select, cat", "1 to 1024 rows, one token each",
    (
        _gather(1, None, 5 * US, "the list wins below 16 rows"),
        _gather(16, 0.0, None, "crossover below 16 rows"),
        _gather(256, 200 * US, None, "about 2 us a row"),
        _gather(1024, 1000 * US, None, "about 2 us a row"),
        Finding("index building, index_select, 1024 rows", Level(_MOST, "index_select", BUILD), bound="host",
                expected="25 to 50 us", same=Ratio(_MOST, "cat", "index_select", BUILD)),
    ), spec="e07_token_gather.yaml",
)  # fmt: skip


def _slots(tokens: int, arm: str, low: float | None, high: float | None, expected: str = "") -> Finding:
    where = {TOKENS: tokens, **QUIET}
    return Finding(
        f"slot mapping on the host, {arm} - triton, {tokens} tokens", Difference(where, arm, "triton", SLOTS),
        f"{tokens} tokens", low, high, expected, "host", Ratio(where, arm, "triton", SLOTS),
    )  # fmt: skip


E8 = Claim(
    "E8",
    "Mapping slots on the host costs no more than launching the kernel up to 64 tokens, and more from 1024 tokens on.",
    "`slot_mapping`: triton, torch, host", "steps of 64, 1024 and 8192 tokens; the copy of host-made slots is counted",
    (
        _slots(64, "host", None, 5 * US, "the host may win (a launcher is 17 us)"),
        _slots(1024, "host", 0.0, None, "the kernel wins"),
        _slots(8192, "host", 0.0, None, "the kernel wins"),
        _slots(64, "torch", None, None), _slots(1024, "torch", None, None), _slots(8192, "torch", None, None),
    ), spec="e08_slot_mapping.yaml",
)  # fmt: skip

SAME: Where = {"workload.regime": "steady", "workload.settings.prompt_len": 128, **QUIET}
LONG: Where = {"workload.regime": "steady", "workload.settings.prompt_len": 8192, **QUIET}
TURNING: Where = {"workload.regime": "churn", **QUIET}
"""Requests that end with their first token: no row of a step was in the step before."""


def _state(where: Where, left: str, right: str, words: str, low: float | None, high: float | None) -> Finding:
    return Finding(
        f"state update, {left} / {right}, {words}", Ratio(where, left, right, UPDATE), words, low, high,
        "3 or more" if low == 3 else "0.8 to 1.2" if low else "", "host",
    )  # fmt: skip


E9 = Claim(
    "E9",
    "A persistent batch updates its state at a third of the cost of a rebuilt one, or less, when the batch stays the"
    " same; when every step changes all of it the two cost the same within 20 %.",
    "`batch_state`: persistent, rebuild, stable_slots", "the same rows in every step: 256 with contexts of 128, 64 with"
    " contexts of 8k; all rows change: 256 new requests of 32 tokens in each step",
    (
        _state(SAME, "rebuild", "persistent", "same rows, 128 tokens", 3.0, None),
        _state(LONG, "rebuild", "persistent", "same rows, 8k tokens", 3.0, None),
        _state(TURNING, "rebuild", "persistent", "all rows change", 0.8, 1.2),
        _state(SAME, "stable_slots", "persistent", "same rows, stable slots", None, None),
        _state(TURNING, "stable_slots", "persistent", "all rows change, stable slots", None, None),
    ), spec="e09_batch_state.yaml",
)  # fmt: skip

_HANDED = {
    64: {ROWS: 64, "workload.settings.prompt_len": 128, "workload.regime": "steady", **QUIET},
    256: {ROWS: 256, "workload.settings.prompt_len": 32, "workload.regime": "steady", **QUIET},
}
_SHORT: Where = {ROWS: 64, "workload.settings.prompt_len": 32, "workload.regime": "steady", **QUIET}
_CHURN: Where = {ROWS: 64, "workload.regime": "churn", **QUIET}


def _host_share(where: Where, arm: str, words: str, high: float | None = None) -> Finding:
    """What the host does not wait of a period."""
    return Finding(
        f"share of the period in which the host works, {arm}, {words}",
        Removed(Level(where, arm, WAIT, "turn"), Level(where, arm, by="turn")),
        "the device is the slower one" if high else "", high=high, bound="host",
    )  # fmt: skip


def _gain(where: Where, words: str, part: str, high: float | None, expected: str = "") -> Finding:
    """Only the sum of a turn is a time of two steps in flight."""
    return Finding(f"period, async_slice / sync, {words}", Ratio(where, "async_slice", "sync", by="turn"), part, None,
                   high, expected, "host")  # fmt: skip


def _handed(rows: int) -> tuple[Finding, ...]:
    where, words = _HANDED[rows], f"{rows} rows"
    return (
        _gain(where, words, f"{words} are faster with two steps in flight", 0.95,
              "host + device becomes their maximum"),
        Finding(f"period, async_scatter - async_slice, {words}",
                Difference(where, "async_scatter", "async_slice", by="turn"), f"a map costs little with {words}", None,
                30 * US, "+10 to +30 us"),
    )  # fmt: skip


E15 = Claim(
    "E15",
    "Where the device is the slower one, two steps in flight shorten the period by 5 % or more; handing tokens over by"
    " a map of rows costs at most 30 us more than a slice while rows stay, and no more where they change.",
    "`token_handoff`: sync, async_slice, async_scatter", "64 and 256 rows that stay, one token each, and 64 rows of"
    " which a tenth change in a step, forward longer than the host's work; shown beside them: 64 rows with a short one",
    (
        *_handed(64), *_handed(256),
        Finding("period, async_scatter - async_slice, rows change",
                Difference(_CHURN, "async_scatter", "async_slice", by="turn"), "a map is no slower where rows change",
                None, 0.0, "the slice has to wait", "host", Ratio(_CHURN, "async_scatter", "async_slice", by="turn")),
        _gain(_SHORT, "64 rows, short forward", "", None),
        Finding("period, async_scatter - async_slice, 64 rows, short forward",
                Difference(_SHORT, "async_scatter", "async_slice", by="turn"), bound="host",
                same=Ratio(_SHORT, "async_scatter", "async_slice", by="turn")),
        _host_share(_SHORT, "async_slice", "64 rows, short forward"),
    ),
    (
        _host_share(_HANDED[64], "async_slice", "64 rows", 0.95),
        _host_share(_HANDED[256], "async_slice", "256 rows", 0.95),
        _host_share(_CHURN, "async_scatter", "rows change", 0.95),
    ), "e15_handoff.yaml", note="host and device side by side gain what the shorter of both takes: next to nothing"
    " behind a short forward. An earlier spec judged that case alone, and there the claim did not hold.",
)  # fmt: skip
