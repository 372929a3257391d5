"""Buffers: what they hold, move and lock, and which copies only look asynchronous."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.analysis.pinned import async_pageable, pinned_reuse
from stepscope.analysis.tables import plain

MIB = 2**20


def use(step: int, **rest) -> dict:
    return {"step": step, "buffer": "block_table", "capacity_bytes": 135790592, "used_bytes": 100 * step,
            "reserved_bytes": 268435456, "memory": "pinned", "slot": step % 2, "reuse_count": step // 2, "wait_ns": 0,
            "hazard": "none", **rest}


def test_a_row_a_buffer(source) -> None:
    uses = [use(0), use(1, wait_ns=30), use(2, hazard="possible"), use(3, hazard="observed"), use(4, hazard=None)]
    copies = [
        {"buffer": "block_table", "direction": "h2d", "src_kind": "pinned", "is_async": True, "size_bytes": 10,
         "changed_bytes": 4},
        {"buffer": "block_table", "direction": "h2d", "src_kind": "pageable", "is_async": True, "size_bytes": 20,
         "changed_bytes": None},
        {"buffer": "tokens", "direction": "d2h", "dst_kind": "unknown", "is_async": True, "size_bytes": None},
        {"buffer": "tokens", "direction": "h2d", "src_kind": "unknown", "is_async": True, "size_bytes": 8},
        {"buffer": "tokens", "direction": "h2d", "src_kind": "unknown", "is_async": False, "size_bytes": 8},
        {"buffer": "tokens", "direction": "d2d", "src_kind": "device", "is_async": True, "size_bytes": 8},
    ]
    table = pinned_reuse(source(buffers=uses, copies=copies))
    row = {name: plain(value) for name, value in table.iloc[0].items()}
    # 129.5 MiB asked, 256 MiB locked: the allocator rounds up to a power of two
    assert row == {
        "buffer": "block_table", "memory": "pinned", "capacity_bytes": 135790592, "reserved_bytes": 256 * MIB,
        "used_p50_bytes": 200.0, "used_max_bytes": 400, "slots": 2, "uses": 5, "reuse_max": 2, "waits": 1,
        "wait_ns": 30, "hazards_none": 2, "hazards_possible": 1, "hazards_observed": 1, "hazards_unknown": 1,
        "copies": 2, "copied_bytes": 30, "changed_bytes": None, "async_pageable": 1, "async_pageable_bytes": 20,
        "async_unknown": 0,
    }
    other = {name: plain(value) for name, value in table.iloc[1].items()}
    assert (other["buffer"], other["copies"], other["copied_bytes"], other["async_unknown"]) == ("tokens", 4, None, 2)
    assert other["hazards_observed"] is None
    assert other["slots"] is None


def test_only_async_copies_with_a_pageable_host_side_are_flagged(source) -> None:
    copies = [
        {"direction": "h2d", "src_kind": "pageable", "dst_kind": "device", "is_async": True},
        {"direction": "h2d", "src_kind": "pinned", "dst_kind": "device", "is_async": True},
        {"direction": "d2h", "src_kind": "device", "dst_kind": "pageable", "is_async": True},
        {"direction": "h2d", "src_kind": "pageable", "dst_kind": "device", "is_async": False},
        {"direction": "h2d", "src_kind": "pageable", "dst_kind": "device", "is_async": None},
        {"direction": "h2d", "src_kind": None, "dst_kind": "device", "is_async": True},
        {"direction": "d2h", "src_kind": "device", "dst_kind": "pinned", "is_async": True},
        {"direction": "d2d", "src_kind": "pageable", "dst_kind": "pageable", "is_async": True},
    ]
    flagged = async_pageable(source(copies=copies).table("copies"))
    assert np.flatnonzero(flagged).tolist() == [0, 2]


def test_different_memory_is_mixed_and_missing_figures_are_null(source) -> None:
    table = pinned_reuse(source(buffers=[use(0, memory="pageable", wait_ns=None, slot=None), use(1, wait_ns=None,
                                                                                                slot=None)]))
    row = table.iloc[0]
    assert row["memory"] == "mixed"
    assert table[["waits", "wait_ns", "slots", "copies", "copied_bytes"]].isna().all(axis=None)


@pytest.mark.parametrize("base", [0, 2**60])
def test_large_bytes_are_summed_exactly(source, base: int) -> None:
    copies = [{"buffer": "b", "direction": "h2d", "size_bytes": base + number} for number in (1, 2, 3)]
    assert pinned_reuse(source(copies=copies)).iloc[0]["copied_bytes"] == 3 * base + 6


def test_no_buffers_no_rows(source) -> None:
    assert len(pinned_reuse(source())) == 0
