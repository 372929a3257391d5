"""Hand-made batches over plain memory, for tests of the state that need no device, and the oracle file."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.null import NullProbe
from stepscope.runner.config import RunnerConfig
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.inputs.commit_order import make_commit
from stepscope.runner.inputs.copy_ordering import make_copy_ordering
from stepscope.runner.inputs.flat_indices import FlatIndexBuilder
from stepscope.runner.inputs.prepare import DeviceTensors, InputBuffers, InputPreparation, Strategies
from stepscope.runner.inputs.slot_mapping import HostSlotMapper, SlotTensors, make_device_mapper
from stepscope.runner.inputs.step_inputs import GroupTensors
from stepscope.runner.inputs.token_gather import make_gather
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.model_runner import build_runner
from stepscope.runner.probe_points import ProbePoints
from stepscope.runner.state.block_table import BlockTable
from stepscope.runner.state.block_tables import BlockTables
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
        self.touched = set()
        self.dirty = True

    def touch(self, row, start, end):
        self.touched.add(row)
        self.dirty = True

    def touch_each(self, rows, starts, ends):
        self.touched.update(rows.tolist())
        self.dirty = True


class MemoryTables:
    """All tables of a step; a commit copies them at once. Keeps how many rows each commit asked for."""

    def __init__(self, *parts):
        self.parts = parts
        self.committed = []

    @property
    def dirty(self):
        return any(part.dirty for part in self.parts)

    def arrange(self, rows):
        pass

    def commit(self, num_reqs, columns):
        self.committed.append(num_reqs)
        for part in self.parts:
            part.gpu[:] = torch.from_numpy(part.mirror)
            part.dirty = False
        return (len(self.committed),)


def one_group(config, staging):
    return BlockTables(resolve_groups(config), MemoryTables(staging))


class StateBench:
    """A worker's state over plain memory, fed with hand-written deltas."""

    def __init__(self, rows=8, max_model_len=64, block_size=4, width=16):
        self.config = RunnerConfig(max_num_seqs=rows, max_model_len=max_model_len, block_size=block_size)
        self.batch = InputBatch(self.config, one_group(self.config, MemoryStaging(rows, width)))
        (self.table,) = self.batch.block_tables.tables
        self.points = ProbePoints(nullcontext)
        self.state = WorkerState(self.batch, self.points)
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


class MemoryBuffer:
    """A staged buffer without a device: publish copies at once. Starts full of garbage, as reused memory is."""

    def __init__(self, size, dtype):
        self.host = np.full(size, 77, dtype=dtype)
        self.gpu = torch.from_numpy(np.full(size, 55, dtype=dtype))
        self.gpus = (self.gpu,)

    def acquire(self):
        return self.host

    def publish(self, count):
        self.gpu[:count] = torch.from_numpy(self.host[:count])
        return 100


class InputBench(StateBench):
    """Adds input preparation over plain memory. `spare_rows` are rows behind max_num_seqs, for padding."""

    def __init__(
        self, max_tokens=64, gather="index_select", slots="torch", order="first", spare_rows=0, **sizes
    ):
        super().__init__(**sizes)
        rows = self.config.max_num_seqs + spare_rows
        self.batch = InputBatch(self.config, one_group(self.config, MemoryStaging(rows, sizes.get("width", 16))))
        (self.table,) = self.batch.block_tables.tables
        self.state = WorkerState(self.batch, self.points)
        self.ledger = Ledger()
        self.device = CpuDevice(self.ledger)
        self.buffers = InputBuffers(
            MemoryBuffer(max_tokens, np.int32),
            MemoryBuffer(max_tokens, np.int64),
            MemoryBuffer(rows + 1, np.int32),
            MemoryBuffer(rows, np.int32),
        )
        self.inputs = self._preparation(rows, max_tokens, gather, slots, order)

    def _preparation(self, rows, max_tokens, gather, slots, order):
        block_size, table = self.config.block_size, self.table.staging.gpu
        ordering = make_copy_ordering(self.device, "compute", "single_guarded")
        fence = ordering.before_readers
        if slots == "host":
            staged = MemoryBuffer(max_tokens, np.int64), MemoryBuffer(rows, np.int64)
            mapper, outputs = HostSlotMapper(*staged, block_size, fence), [buffer.gpu for buffer in staged]
        else:
            outputs = [torch.zeros(max_tokens, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)]
            tensors = SlotTensors(self.buffers.query_start_loc.gpu, self.buffers.positions.gpu, table, *outputs)
            mapper = make_device_mapper(slots, self.device, tensors, block_size, fence)
        strategies = Strategies(
            make_commit(order, NullProbe()),
            ordering,
            FlatIndexBuilder(rows, max_tokens),
            make_gather(gather, rows, max_tokens, self.config.max_model_len),
            mapper,
        )
        tensors = DeviceTensors((GroupTensors(table, outputs[0]),), outputs[1])
        return InputPreparation(NullProbe(), self.points, self.buffers, (tensors,), strategies)

    def prepare(self, scheduled, **delta):
        """Update, then prepare the same delta to the end."""
        self.update(scheduled, **delta)
        inputs = self.inputs.prepare(
            self.batch, StepDelta(step=self.step - 1, num_scheduled_tokens=dict(scheduled))
        )
        return self.inputs.finish(self.batch, inputs)


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


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The small steps of these tests are slower on two threads than on one."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def patched_once():
    """In Triton's interpreter each call of a function in a kernel looks through triton.language for what it has to
    patch, a quarter of the time. Only the first call of a module's functions finds anything, and that is never undone.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        yield
        return
    from triton.runtime import interpreter

    patching, modules = interpreter.InterpretedFunction.__call__, set()

    def call(self, *args, **kwargs):
        if self.fn.__module__ not in modules:
            modules.add(self.fn.__module__)
            return patching(self, *args, **kwargs)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.InterpretedFunction, "__call__", call)
        yield


@pytest.fixture
def bench():
    return StateBench


@pytest.fixture
def input_bench():
    return InputBench


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
            block_ids=(array("i", blocks),),
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


class TinyRunner:
    """A whole runner on the cpu device, driven by hand-written deltas with enough blocks given up front."""

    def __init__(self, probe=None, ledger=None, device=None, allow_hazards=False, **switches):
        sizes = {
            "max_num_seqs": 8, "max_num_batched_tokens": 64, "max_model_len": 64, "block_size": 4, "num_blocks": 128,
            "check": "every",
        }  # fmt: skip
        self.ledger = ledger or Ledger()
        self.device = device or CpuDevice(self.ledger)
        self.config = RunnerConfig(**(sizes | switches))
        self.runner = build_runner(
            self.config, self.device, probe or NullProbe(), self.ledger, allow_hazards=allow_hazards
        )
        self.step = 0
        self.lengths = {}

    def run(self, scheduled, new=(), cached=None, **rest):
        delta = StepDelta(
            self.step, tuple(new), cached or CachedRequests(), dict(scheduled),
            frozenset(rest.get("finished", ())), tuple(rest.get("preempted", ())),
        )  # fmt: skip
        self.step += 1
        return self.runner.execute(delta).sampled

    def new(self, req_id, prompt, blocks, computed=0, sampling=None):
        self.lengths[req_id] = len(prompt)
        prompt = np.asarray(prompt, dtype=np.int32)
        return NewRequest(req_id, prompt, (tuple(blocks),), computed, sampling or SamplingParams())


@pytest.fixture
def tiny_runner():
    return TinyRunner
