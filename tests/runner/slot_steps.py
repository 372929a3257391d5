"""Steps whose slots are asked for, and the article's formula for them in plain Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SHARED_ORACLE = Path(__file__).resolve().parents[2].parent / "shared" / "oracles" / "runner_cases.json"


def make_step(block_size, block_rows, num_scheduled, num_computed, max_num_tokens):
    width = max(map(len, block_rows))
    boundaries = np.cumsum([0, *num_scheduled])
    positions = [c + i for c, q in zip(num_computed, num_scheduled, strict=True) for i in range(q)]
    return {
        "block_size": block_size,
        "table": [row + [0] * (width - len(row)) for row in block_rows],
        "query_start_loc": boundaries.tolist(),
        "positions": positions,
        "num_scheduled": num_scheduled,
        "num_computed": num_computed,
        "max_num_tokens": max_num_tokens,
    }


def by_formula(step):
    slots = []
    for row, (computed, count) in enumerate(zip(step["num_computed"], step["num_scheduled"], strict=True)):
        for position in range(computed, computed + count):
            block = step["table"][row][position // step["block_size"]]
            slots.append(block * step["block_size"] + position % step["block_size"] if block else -1)
    return slots + [-1] * (step["max_num_tokens"] - len(slots))


def oracle_steps(cases):
    names = ("block_size", "block_rows", "num_scheduled", "num_computed", "max_num_tokens")
    return [make_step(*(case["in"][name] for name in names)) for case in cases]


def recorded_steps():
    """The steps of vLLM's recorded slot mappings, where the file is there."""
    if not SHARED_ORACLE.exists():
        return []
    return oracle_steps(json.loads(SHARED_ORACLE.read_text())["groups"]["slot_mapping"]["cases"])


ARTICLE = make_step(4, [[7, 2], [5], [8, 9, 4]], [1, 3, 2], [5, 0, 8], 9)
LARGE = make_step(16, [[0] * 3 + [63_999]], [1], [63], 2)  # case 6: block 63,999, offset 15
HUGE = make_step(16, [[200_000_000]], [1], [15], 1)  # 3.2e9 does not fit 32 bits
IDLE = make_step(2, [[3], [4, 5], [6]], [0, 3, 0], [2, 1, 0], 4)
LONG = make_step(16, [list(range(1, 200)), [300]], [3000, 1], [40, 3], 3100)  # more than one chunk of the kernel
TURNS = make_step(16, [list(range(1, 640))], [10_000], [5], 10_001)  # more than the chunks that run side by side
NULLS = make_step(4, [[0, 0, 9], [0, 5], [0, 0]], [9, 3, 2], [2, 3, 0], 16)  # some tokens stand below a window
STEPS = [ARTICLE, LARGE, HUGE, IDLE, LONG, TURNS, NULLS]
