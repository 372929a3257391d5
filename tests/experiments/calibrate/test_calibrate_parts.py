"""Every part of a calibration runs on a bench that measures nothing; traces are read as CUPTI writes them."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest
import torch
from stepscope.errors import MeasurementError, UsageError
from stepscope.experiments.calibrate import calls, copies, heads, run, stack
from stepscope.experiments.calibrate.raw import RawFigures, read_raw
from stepscope.experiments.calibrate.run import Grid, Subject, json_text, measure_parts, origin_of, write_calibration
from stepscope.experiments.calibrate.stack import Stack, copied_weights
from stepscope.experiments.calibrate.trace import TraceEvent, copy_medians, events_of, latency_and_wakeup
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.devices.calibration import Staircase, load_calibration
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.llama import LlamaModel

TINY = NAMED["tiny"]
GRID = Grid(stack=(1, 2, 3), eager=(1, 2), heads=(1, 4), decode=((1, 16), (2, 32)), prefill=(16, 32), sized=(1, 3))


class Attending(TorchAttention):
    """The reference backend as the calibration calls the Triton one."""

    def __init__(self) -> None:
        self.queries = []

    def build(self, common):
        return common

    def attend(self, query, key_cache, value_cache, metadata):
        self.queries.append(query.shape[0])
        return query

    def slots(self, metadata):
        return metadata.slot_mapping

    def forward(self, query, key, value, key_cache, value_cache, metadata):
        return query.contiguous()


def subject() -> Subject:
    backend, weights = Attending(), copied_weights(TINY, torch.device("cpu"))
    first = dataclasses.replace(TINY, num_hidden_layers=1), dataclasses.replace(weights, layers=weights.layers[:1])
    whole, piece = (Stack(torch.device("cpu"), LlamaModel(*held), backend, 8) for held in ((TINY, weights), first))
    return Subject(TINY, whole, piece, backend)


@pytest.fixture
def small(monkeypatch):
    """Host-side stand-ins for what needs a GPU or much memory."""
    monkeypatch.setattr(heads, "slot_mapping_call", lambda bench, rows: lambda: None)
    monkeypatch.setattr(calls, "slot_mapping_call", lambda bench, rows: lambda: None)
    monkeypatch.setattr(calls, "GAP_NS", 0)
    monkeypatch.setattr(stack, "EAGER_ROUNDS", 1)
    sizes = (4, 1024, 32768), (1024,), (4, 8)
    monkeypatch.setattr(run, "copy_figures", lambda bench: copies.copy_figures(bench, *sizes))
    monkeypatch.setattr(run, "ceilings", lambda bench: heads.ceilings(bench, side=8, copy_bytes=64))


def test_all_parts_become_raw_figures_and_a_calibration_that_loads(bench, small, tmp_path, monkeypatch) -> None:
    # GIVEN a machine without a GPU that calls itself one
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA Test")
    said, kept = [], []
    # WHEN every part is measured and written
    parts = measure_parts(bench, subject(), GRID, lambda known: kept.append(sorted(known)), said.append)
    raw = msgspec.convert(msgspec.to_builtins({**parts, "origin": origin_of(1.5)}), RawFigures)
    written = write_calibration(raw, tmp_path / "made.json", tmp_path / "made_raw.json")
    # THEN the file loads, each part was kept as soon as it was known, and progress was told
    loaded = load_calibration(str(tmp_path / "made.json"))
    assert loaded == written.calibration
    assert loaded.source == "perf doctor --calibrate; raw figures: made_raw.json"
    assert loaded.models["tiny"].sizes == (1, 2, 3)
    assert loaded.models["tiny"].kernels_per_layer == 1
    assert loaded.launch_latency_ns.kernel == 2000
    assert loaded.sync_wakeup_ns == 4000
    assert [len(names) for names in kept] == list(range(3, 12))
    assert loaded.models["tiny"].sized_attention == Staircase((1, 3), (0, 0))  # this bench times nothing
    assert "stack: 3 of 3 sizes" in said
    assert {line.split(":")[0] for line in said} >= {"host_cost_ns", "copies", "attention", "heads"}


def test_raw_figures_survive_their_file(bench, small, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA Test")
    parts = measure_parts(bench, subject(), GRID, lambda known: None, lambda line: None)
    raw = msgspec.convert(msgspec.to_builtins({**parts, "origin": origin_of(1.5)}), RawFigures)
    (tmp_path / "raw.json").write_text(json_text(raw))
    assert read_raw(tmp_path / "raw.json") == raw
    assert "  [1024, 1000.0, 5000.0]" in (tmp_path / "raw.json").read_text()  # a sample stands on one line


def test_the_rounds_of_neighbouring_sizes_take_turns(bench) -> None:
    # The fake bench counts: size 1 gets calls 1, 4, 7, ... and not 1, 2, 3
    found = stack.stack_samples(bench, subject().stack, (1, 2, 3), lambda line: None)
    assert found[0].round_medians_ns == tuple(1000.0 + n for n in (1, 4, 7))
    assert len(found[0].kernel_hash) == 12
    assert found[0].kernel_hash == found[2].kernel_hash


def test_layers_have_weights_of_their_own() -> None:
    weights = copied_weights(TINY, torch.device("cpu"))
    addresses = {layer.qkv.data_ptr() for layer in weights.layers}
    assert len(addresses) == TINY.num_hidden_layers
    assert torch.equal(weights.layers[0].qkv, weights.layers[1].qkv)


def test_a_trace_is_read_in_nanoseconds() -> None:
    made = {"ph": "X", "name": "Memcpy HtoD", "cat": "gpu_memcpy", "ts": 1.5, "dur": 2, "args": {"bytes": 8}}
    (found,) = events_of([{"ph": "M", "name": "process_name"}, made])
    assert (found.start_ns, found.end_ns, found.size_bytes, found.correlation) == (1500.0, 3500.0, 8, None)
    assert copy_medians([found], "HtoD", [8]) == {8: 2000.0}


def test_a_round_with_a_busy_bus_does_not_count() -> None:
    # GIVEN three rounds of two copies of 8 bytes, the last one first in the list
    durations = [150, 152, 190, 191, 151, 153]
    made = [
        TraceEvent(
            name="Memcpy HtoD", category="gpu_memcpy", start_ns=1000.0 * i, end_ns=1000.0 * i + took, size_bytes=8
        )
        for i, took in enumerate(durations)
    ]  # fmt: skip
    assert copy_medians([*made[4:], *made[:4]], "HtoD", [8], rounds=3) == {8: 151.0}
    assert copy_medians(made, "HtoD", [8]) == {8: 152.5}


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
def test_a_size_that_the_profiler_did_not_see_is_an_error(bench, direction) -> None:
    with pytest.raises(MeasurementError, match=f"no {direction} copy of 999 bytes"):
        copy_medians(bench.trace(lambda: None), direction, [4, 999])


def test_latency_and_wakeup_belong_to_the_call_asked_for(bench) -> None:
    events = bench.trace(lambda: None)
    assert latency_and_wakeup(events, "cudaGraphLaunch") == (2000.0, 4000.0)
    with pytest.raises(MeasurementError, match="no cudaLaunchHostFunc"):
        latency_and_wakeup(events, "cudaLaunchHostFunc")


def test_damaged_raw_figures_name_the_file_and_the_field(tmp_path) -> None:
    (tmp_path / "raw.json").write_text(json.dumps({"origin": {"gpu": 7}}))
    with pytest.raises(UsageError, match=r"raw.json: .*origin.gpu.*perf doctor --calibrate"):
        read_raw(tmp_path / "raw.json")
    with pytest.raises(UsageError, match=r"none.json: cannot be read"):
        read_raw(tmp_path / "none.json")
