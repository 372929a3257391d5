"""Memory of captured graphs: estimate against measurement."""

import pandas as pd
import pytest
from stepscope.analysis.graph_memory import (
    GraphMemory,
    estimate_graph_memory,
    graph_memory,
    judge_graph_memory,
)  # fmt: skip

MIB, GIB = 1 << 20, 1 << 30


def test_case_41_an_estimate_of_nothing():
    # GIVEN 20.00 GiB free before and 18.75 GiB after capturing 10 sizes, estimate 0
    memory = judge_graph_memory(10, 0, 20 * GIB, 18 * GIB + 768 * MIB)
    # THEN 1.25 GiB were measured, 128 MiB a size, and the estimate is flagged
    assert memory == GraphMemory(
        num_sizes=10, estimate_bytes=0, measured_bytes=1280 * MIB, per_size_bytes=128.0 * MIB, ratio=0.0,
        flags=("estimate_zero",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("estimate", "flags"),
    [
        (None, ()),
        (1280 * MIB, ()),
        (640 * MIB, ()),
        (2560 * MIB, ()),
        (639 * MIB, ("ratio_out_of_range",)),
        (2561 * MIB, ("ratio_out_of_range",)),
        (119 * GIB, ("ratio_out_of_range", "estimate_above_free")),
    ],
)
def test_flags(estimate, flags):
    assert judge_graph_memory(10, estimate, 20 * GIB, 20 * GIB - 1280 * MIB).flags == flags


def test_without_graphs_nothing_is_measured_and_nothing_flagged():
    assert judge_graph_memory(0, 0, 20 * GIB, 20 * GIB) == GraphMemory(0, 0, None, None, None, ())
    assert judge_graph_memory(3, 5 * MIB, None, None) == GraphMemory(3, 5 * MIB, None, None, None, ())


def test_graphs_that_took_nothing_have_no_ratio():
    memory = judge_graph_memory(2, 4 * MIB, GIB, GIB)
    assert (memory.measured_bytes, memory.per_size_bytes, memory.ratio, memory.flags) == (0, 0.0, None, ())


@pytest.mark.parametrize(
    ("first", "counts", "estimate"),
    [
        ([[]], [0], None),
        ([[300]], [1], 300),
        ([[300, 20]], [10], 480),  # 300 + 9 * 20
        ([[300, 20], [50, 0]], [10, 4], 530),
        ([[-8, 0]], [2], 0),
    ],
)
def test_two_captures_foretell_the_rest(first, counts, estimate):
    assert estimate_graph_memory(first, counts) == estimate


def test_from_a_recording():
    rows = [
        ("graph_free_before", 20 * GIB), ("graph_free_after", 19 * GIB), ("graph_memory_estimate", 300 * MIB),
        ("graph_memory", 900 * MIB), ("graph_memory", 124 * MIB), ("graph_capture", 5e6), ("graph_ns", 1e6),
        ("copy_device_ns", None),
    ]  # fmt: skip
    memory = graph_memory(pd.DataFrame(rows, columns=["name", "value"]))
    assert (memory.num_sizes, memory.measured_bytes, memory.per_size_bytes) == (2, GIB, GIB / 2)
    assert memory.flags == ("ratio_out_of_range",)
    assert graph_memory(pd.DataFrame({"name": ["graph_ns"], "value": [1.0]})) is None
    assert graph_memory(pd.DataFrame()) is None
