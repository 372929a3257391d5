"""Hand-made batches over plain memory, for tests of the state that need no device, and the oracle file."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from stepscope.runner.config import RunnerConfig
from stepscope.runner.probe_points import ProbePoints
from stepscope.runner.state.block_table import BlockTable
from stepscope.runner.state.input_batch import InputBatch
from stepscope.runner.state.request_state import CachedRequestState
from stepscope.runner.state.update import WorkerState
from stepscope.workloads.step import CachedRequests, NewRequest, SamplingParams, StepDelta

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


class MemoryStaging:
    """A block table's mirror and device tensor without anything between them."""

    def __init__(self, rows, width):
        self.mirror = np.zeros((rows, width), dtype=np.int32)
        self.gpu = torch.zeros((rows, width), dtype=torch.int32)
        self.published = []
        self.touched = set()

    def touch(self, row):
        self.touched.add(row)

    def publish(self, num_rows):
        self.published.append(num_rows)
        self.gpu[:num_rows] = torch.from_numpy(self.mirror[:num_rows])
        return len(self.published)


class StateBench:
    """A worker's state over plain memory, fed with hand-written deltas."""

    def __init__(self, rows=8, max_model_len=64, block_size=4, width=16):
        self.config = RunnerConfig(max_num_seqs=rows, max_model_len=max_model_len, block_size=block_size)
        self.table = BlockTable(MemoryStaging(rows, width))
        self.batch = InputBatch(self.config, self.table)
        self.points = ProbePoints(nullcontext)
        self.state = WorkerState(self.batch, self.points, torch.device("cpu"))
        self.step = 0

    def new(self, req_id, prompt, blocks, computed=0, sampling=None):
        return NewRequest(
            req_id, np.asarray(prompt, dtype=np.int32), (tuple(blocks),), computed, sampling or SamplingParams()
        )

    def update(self, scheduled, new=(), cached=None, finished=(), preempted=()):
        delta = StepDelta(
            step=self.step,
            new_requests=tuple(new),
            cached=cached or CachedRequests(),
            num_scheduled_tokens=dict(scheduled),
            finished_req_ids=frozenset(finished),
            preempted_req_ids=tuple(preempted),
        )
        self.step += 1
        return self.state.update(delta)


def _cached(*entries, resumed=(), history=None):
    """CachedRequests of (req_id, computed, new blocks or None)."""
    return CachedRequests(
        req_ids=tuple(entry[0] for entry in entries),
        num_computed_tokens=tuple(entry[1] for entry in entries),
        new_block_ids=tuple(None if entry[2] is None else (tuple(entry[2]),) for entry in entries),
        num_output_tokens=tuple(0 for _ in entries),
        resumed_req_ids=frozenset(resumed),
        all_token_ids={req: np.asarray(tokens, dtype=np.int32) for req, tokens in (history or {}).items()},
    )


@pytest.fixture
def bench():
    return StateBench


@pytest.fixture
def cached():
    return _cached


@pytest.fixture
def memory_table():
    return lambda rows, width: BlockTable(MemoryStaging(rows, width))


@pytest.fixture
def request_state():
    """request_state(id, prompt, outputs, blocks, computed, temperature)."""
    from array import array

    def make(req_id, prompt, outputs=(), blocks=(), computed=0, temperature=0.0):
        return CachedRequestState(
            req_id=req_id,
            prompt_token_ids=np.asarray(prompt, dtype=np.int32),
            block_ids=array("i", blocks),
            num_computed_tokens=computed,
            sampling=SamplingParams(temperature=temperature),
            output_token_ids=array("i", outputs),
        )

    return make


@pytest.fixture(scope="session")
def runner_oracle():
    """runner_oracle(group) -> cases of the shared oracle file; skips where it is absent."""
    path = SHARED / "oracles" / "runner_cases.json"
    if not path.exists():
        pytest.skip("needs ../shared/oracles/runner_cases.json")
    groups = json.loads(path.read_text())["groups"]
    return lambda group: groups[group]["cases"]


@pytest.fixture(scope="session")
def shared_case():
    """shared_case(number) -> (case, expected); skips where it is absent."""

    def load(number):
        folder = SHARED / "cases" / str(number)
        if not folder.exists():
            pytest.skip(f"needs ../shared/cases/{number}")
        lines = (folder / "expected.txt").read_text().splitlines()
        pairs = [line.split(" = ", 1) for line in lines if " = " in line and not line.startswith("#")]
        return json.loads((folder / "case.json").read_text()), {key.strip(): json.loads(text) for key, text in pairs}

    return load
