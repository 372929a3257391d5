"""Steps whose slots are asked for, and the article's formula for them in plain Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from stepscope.runner.shards import Shard

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


def dealt(block_size, ranks, interleave):
    """Who gets each token of a block and where it puts it: dealt out like cards, `interleave` at a time."""
    places, held, rank = [], [0] * ranks, 0
    while len(places) < block_size * ranks:
        for _ in range(interleave):
            places.append((rank, held[rank]))
            held[rank] += 1
        rank = (rank + 1) % ranks
    return places


def by_dealing(step, shard):
    """A rank's slots, in blocks of `block_size` tokens on each rank."""
    size, slots = step["block_size"], []
    places = dealt(size, shard.ranks, shard.interleave)
    for row, (computed, count) in enumerate(zip(step["num_computed"], step["num_scheduled"], strict=True)):
        for position in range(computed, computed + count):
            block = step["table"][row][position // len(places)]
            rank, offset = places[position % len(places)]
            slots.append(block * size + offset if block and rank == shard.rank else -1)
    return slots + [-1] * (step["max_num_tokens"] - len(slots))


def random_shards(seed, count):
    """(step, shard) of random worlds; some blocks are null, some past 2^31 slots, some rows without a token."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        ranks, interleave = int(rng.integers(2, 6)), int(rng.choice([1, 2, 3, 4, 8]))
        size, rows = interleave * int(rng.integers(1, 5)), int(rng.integers(1, 6))
        scheduled, computed = rng.integers(0, 30, rows).tolist(), rng.integers(0, 50, rows).tolist()
        width = -(-max(map(sum, zip(scheduled, computed, strict=True))) // (size * ranks)) + 1
        blocks = rng.integers(0, 2**31, (rows, width)) >> int(rng.choice([0, 20, 28]))
        step = make_step(size, blocks.tolist(), scheduled, computed, sum(scheduled) + int(rng.integers(1, 5)))
        yield step, Shard(int(rng.integers(ranks)), ranks, interleave)


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


def oracle_shards(cases):
    names = ("cp_rank", "cp_world", "cp_interleave")
    return [Shard(*(case["in"][name] for name in names)) for case in cases]


def recorded_steps():
    """The steps of vLLM's recorded slot mappings, where the file is there."""
    if not SHARED_ORACLE.exists():
        return []
    return oracle_steps(json.loads(SHARED_ORACLE.read_text())["groups"]["slot_mapping"]["cases"])


def recorded_shards():
    """The same with decode context parallelism: (step, shard)."""
    if not SHARED_ORACLE.exists():
        return []
    cases = json.loads(SHARED_ORACLE.read_text())["groups"]["slot_mapping_dcp"]["cases"]
    return list(zip(oracle_steps(cases), oracle_shards(cases), strict=True))


ARTICLE = make_step(4, [[7, 2], [5], [8, 9, 4]], [1, 3, 2], [5, 0, 8], 9)
LARGE = make_step(16, [[0] * 3 + [63_999]], [1], [63], 2)  # case 6: block 63,999, offset 15
HUGE = make_step(16, [[200_000_000]], [1], [15], 1)  # 3.2e9 does not fit 32 bits
IDLE = make_step(2, [[3], [4, 5], [6]], [0, 3, 0], [2, 1, 0], 4)
LONG = make_step(16, [list(range(1, 200)), [300]], [3000, 1], [40, 3], 3100)  # more than one chunk of the kernel
TURNS = make_step(16, [list(range(1, 640))], [10_000], [5], 10_001)  # more than the chunks that run side by side
NULLS = make_step(4, [[0, 0, 9], [0, 5], [0, 0]], [9, 3, 2], [2, 3, 0], 16)  # some tokens stand below a window
STEPS = [ARTICLE, LARGE, HUGE, IDLE, LONG, TURNS, NULLS]
