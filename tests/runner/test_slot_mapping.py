"""The mappers against the article's formula in plain Python; `triton` is its stand-in, the kernel runs interpreted."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs.flat_indices import FlatIndexBuilder
from stepscope.runner.inputs.slot_mapping import HostSlotMapper, SlotTensors, make_device_mapper

SHARED_ORACLE = Path(__file__).resolve().parents[2].parent / "shared" / "oracles" / "runner_cases.json"
KERNEL_SCRIPT = """
import json, sys, numpy as np, torch
from stepscope.runner.inputs.slot_kernel import SlotKernel
answers, device = [], "cuda" if torch.cuda.is_available() else "cpu"
torch.set_default_device(device)
for step in json.load(sys.stdin):
    table = torch.tensor(step["table"], dtype=torch.int32)
    slots = torch.full((step["max_num_tokens"],), 12345, dtype=torch.int64)
    logits = torch.zeros(table.shape[0], dtype=torch.int64)
    kernel = SlotKernel(
        torch.tensor(step["query_start_loc"], dtype=torch.int32), torch.tensor(step["positions"], dtype=torch.int64),
        table, (slots, logits), step["block_size"],
    )
    kernel(len(step["query_start_loc"]) - 1, step["query_start_loc"][-1])
    answers.append({"slots": slots.tolist(), "logits": logits.tolist()})
json.dump(answers, sys.stdout)
"""


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


def by_mapper(kind, step):
    scheduled, computed = (np.asarray(step[name], dtype=np.int32) for name in ("num_scheduled", "num_computed"))
    rows, tokens = scheduled.size, step["max_num_tokens"]
    builder, positions = FlatIndexBuilder(rows, tokens), np.zeros(tokens, dtype=np.int64)
    boundaries = np.zeros(rows + 1, dtype=np.int32)
    builder.boundaries(scheduled, boundaries)
    flat = builder.build(scheduled, computed, boundaries, positions)
    table = np.asarray(step["table"], dtype=np.int32)
    tables = SimpleNamespace(tables=[SimpleNamespace(values=table)])
    batch = SimpleNamespace(num_reqs=rows, block_tables=tables, columns_of=lambda members: members)
    fenced = []
    fence = partial(fenced.append, True)
    slots, logits = (torch.full((size,), 12345, dtype=torch.int64) for size in (tokens, rows))
    if kind != "host":
        tensors = SlotTensors(*map(torch.from_numpy, (boundaries, positions, table)), slots, logits)
        mapper = make_device_mapper(kind, CpuDevice(Ledger()), tensors, step["block_size"], fence)
    else:
        mapper = HostSlotMapper(Shared(slots), Shared(logits), step["block_size"], fence)
    mapper.map(batch, flat, ())
    assert fenced == [True]
    return {"slots": slots.tolist(), "logits": logits.tolist()}


class Shared:
    """A staged buffer whose two sides are one memory."""

    def __init__(self, gpu):
        self.gpu = gpu

    def acquire(self):
        return self.gpu.numpy()

    def publish(self, count):
        return 1


def by_kernel(steps):
    """All steps in one process: Triton's interpreter is chosen when Triton is imported; a GPU does without."""
    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    environment = {**os.environ, **interpreted, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KERNEL_SCRIPT],
        input=json.dumps(steps), env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


ARTICLE = make_step(4, [[7, 2], [5], [8, 9, 4]], [1, 3, 2], [5, 0, 8], 9)
LARGE = make_step(16, [[0] * 3 + [63_999]], [1], [63], 2)  # case 6: block 63,999, offset 15
HUGE = make_step(16, [[200_000_000]], [1], [15], 1)  # 3.2e9 does not fit 32 bits
IDLE = make_step(2, [[3], [4, 5], [6]], [0, 3, 0], [2, 1, 0], 4)
LONG = make_step(16, [list(range(1, 200)), [300]], [3000, 1], [40, 3], 3100)  # more than one chunk of the kernel
TURNS = make_step(16, [list(range(1, 640))], [10_000], [5], 10_001)  # more than the chunks that run side by side
NULLS = make_step(4, [[0, 0, 9], [0, 5], [0, 0]], [9, 3, 2], [2, 3, 0], 16)  # some tokens stand below a window
STEPS = [ARTICLE, LARGE, HUGE, IDLE, LONG, TURNS, NULLS]


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_the_articles_slots(kind):
    assert by_mapper(kind, ARTICLE) == {"slots": [9, 20, 21, 22, 16, 17, -1, -1, -1], "logits": [0, 3, 5]}


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
@pytest.mark.parametrize("step", STEPS)
def test_mappers_follow_the_formula(kind, step):
    answer = by_mapper(kind, step)
    assert answer["slots"] == by_formula(step)
    ends = step["query_start_loc"][1:]
    assert answer["logits"] == [max(end - 1, 0) for end in ends]


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_a_null_block_never_gives_a_slot(kind):
    assert by_mapper(kind, NULLS)["slots"] == [-1] * 6 + [36, 37, 38] + [-1, 20, 21] + [-1] * 4


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_asserted_oracle(runner_oracle, kind):
    for case in runner_oracle("slot_mapping_asserted_v2"):
        given = case["in"]
        if "group_mapping_disabled" in given:
            continue  # test_kv_groups: no mapper is built for such a group
        mapped = given.get("idx_mapping", 0) >= 0
        row = given["row"] if mapped else [0] * len(given["row"])  # a step's row that maps to nobody is a null row
        first, count = given["positions"][0], len(given["positions"])
        steps = [make_step(given["block_size"], [row], [1], [position], 1) for position in given["positions"]]
        assert [by_mapper(kind, step)["slots"][0] for step in steps] == case["out"]
        if given["positions"] == list(range(first, first + count)):
            together = make_step(given["block_size"], [row], [count], [first], count)
            assert by_mapper(kind, together)["slots"] == case["out"]


def test_slots_are_64_bit():
    assert by_mapper("torch", LARGE)["slots"][0] == 1_023_999
    assert by_mapper("torch", HUGE)["slots"][0] == 3_200_000_015


def test_case_6(shared_case):
    case, expected = shared_case(6)
    step = make_step(case["block_size"], [[case["block"]]], [1], [case["offset"]], 1)
    for kind in ("triton", "torch", "host"):
        assert by_mapper(kind, step)["slots"] == [expected["slot"]]
    stride = case["num_kv_heads"] * case["head_size"]
    slots = torch.tensor(by_mapper("torch", step)["slots"])
    assert int((slots * stride)[0]) == expected["element_offset"]
    assert torch.iinfo(slots.dtype).bits == expected["slot_dtype_bits"]


def oracle_steps(cases):
    names = ("block_size", "block_rows", "num_scheduled", "num_computed", "max_num_tokens")
    return [make_step(*(case["in"][name] for name in names)) for case in cases]


@pytest.fixture(scope="module")
def kernel_answers():
    """Answers for STEPS and, where the file is there, the oracle's steps: one process for both, it starts slowly."""
    pytest.importorskip("triton")
    oracle = SHARED_ORACLE.exists()
    cases = json.loads(SHARED_ORACLE.read_text())["groups"]["slot_mapping"]["cases"] if oracle else []
    answers = by_kernel([*STEPS, *oracle_steps(cases)])
    return answers[: len(STEPS)], answers[len(STEPS) :]


def test_the_kernel_in_tritons_interpreter(kernel_answers):
    for step, answer in zip(STEPS, kernel_answers[0], strict=True):
        assert answer["slots"] == by_formula(step)
        assert answer["logits"] == [max(end - 1, 0) for end in step["query_start_loc"][1:]]


@pytest.mark.parametrize("kind", ["triton", "torch", "host"])
def test_oracle(runner_oracle, kind):
    cases = runner_oracle("slot_mapping")
    for case, step in zip(cases, oracle_steps(cases), strict=True):
        assert by_mapper(kind, step)["slots"] == case["out"]


def test_oracle_in_tritons_interpreter(runner_oracle, kernel_answers):
    for case, answer in zip(runner_oracle("slot_mapping"), kernel_answers[1], strict=True):
        assert answer["slots"] == case["out"]
