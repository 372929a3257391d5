"""What captured graphs took of the device's memory stands with the dispatch ledger, beside what was foreseen."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from stepscope.analysis.graph_memory import judge_graph_memory
from stepscope.reports.pages.dispatch import dispatch_section

GIB = 1 << 30
NO_DECISION = SimpleNamespace(dispatch=pd.DataFrame())


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (None, []),
        (judge_graph_memory(10, 0, 20 * GIB, None), []),  # the fall of the free memory was not measured
        (
            judge_graph_memory(10, GIB, 20 * GIB, 20 * GIB - 5 * GIB // 4),
            ["10 captured graphs took 1.25 GiB of the device's memory, 128 MiB each; 1 GiB were foreseen."],
        ),
        (
            judge_graph_memory(10, 0, 20 * GIB, 20 * GIB - 5 * GIB // 4),
            ["10 captured graphs took 1.25 GiB of the device's memory, 128 MiB each; 0 B were foreseen (nothing was"
             " foreseen, so nothing was left free for them)."],
        ),
        (
            judge_graph_memory(1, None, 2 * GIB, GIB),
            ["1 captured graph took 1 GiB of the device's memory, 1 GiB each."],
        ),
    ],
)  # fmt: skip
def test_graphs_and_their_memory(memory, told) -> None:
    section = dispatch_section(NO_DECISION, memory, "")
    assert [block.text for block in section.blocks[1:]] == told
