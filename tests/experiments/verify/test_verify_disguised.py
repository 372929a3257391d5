"""Checks that need a GPU, run on the `sim` device in its place: what they find there is no matter, that they run is."""

import types
from dataclasses import replace

import pytest
import torch
from stepscope.experiments import session
from stepscope.experiments.calibrate.trace import TraceEvent
from stepscope.experiments.own_costs.kernels import KernelTimes
from stepscope.experiments.verify import (
    cells,
    copies_gpu,
    device_tables,
    padding_runs,
    pinned_gpu,
    recorder_gpu,
)
from stepscope.experiments.verify.cell_specs import cell_specs
from stepscope.experiments.verify.check import Setting
from stepscope.experiments.verify.run import CHECKS, run_check
from stepscope.runner.devices import make_device
from stepscope.runner.devices.costs import Cost
from stepscope.runner.devices.sim import SimDevice
from stepscope.runner.devices.sim_clock import DeclaredHost

QUICK = Setting(device="cuda", seed=3, quick=True)
CYCLES_PER_US = 1_700


class Disguise(SimDevice):
    """Launches last as long as the spin kernel that they launch, or 2 us."""

    slept_ns = 0

    def launch(self, name, fn, work, *, stream="compute", consumes=()):
        with self._sim_clock:
            type(self).slept_ns = 0
            result = fn()
            self._lanes.launch(name, Cost(4_000, 2_000, self.slept_ns or 2_000), stream, consumes=consumes)
            return result


class World:
    """The ledger of the device that was made last, and what a profiler would see of it."""

    def __init__(self):
        self.ledger = None

    def make(self, ledger, timing=True):
        self.ledger = ledger
        device = make_device("sim", ledger=ledger, host=DeclaredHost({}))
        device.__class__ = Disguise
        return device

    def traced(self, work):
        before = {table: len(self.ledger.rows[table]) for table in ("spans", "copies")}
        work()
        spans, copies = (self.ledger.rows[table][before[table] :] for table in ("spans", "copies"))
        seen = [
            TraceEvent(name="spin", category="kernel", start_ns=row[5], end_ns=row[6])
            for row in spans if row[1].startswith("gpu:") and row[3] == "kernel"
        ]  # fmt: skip
        seen += [
            TraceEvent(name=f"Memcpy HtoD ({row[4].capitalize()} -> Device)", category="gpu_memcpy", start_ns=row[10],
                       end_ns=row[11], size_bytes=row[2])
            for row in copies if row[1] == "h2d"
        ]  # fmt: skip
        return sorted(seen, key=lambda event: event.start_ns)


@pytest.fixture(autouse=True)
def world(monkeypatch):
    made = World()
    for module in (recorder_gpu, copies_gpu, pinned_gpu, device_tables, padding_runs):
        monkeypatch.setattr(module, "make_cuda", made.make)
    for module in (recorder_gpu, copies_gpu, pinned_gpu):
        monkeypatch.setattr(module, "traced", made.traced)
    monkeypatch.setattr(
        torch.cuda, "_sleep", lambda cycles: setattr(Disguise, "slept_ns", cycles * 1_000 // CYCLES_PER_US),
        raising=False,
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "host_memory_stats", dict)
    return made


def failed(name, mutant=None):
    (check,) = (check for check in CHECKS if check.name == name)
    result = run_check(check, QUICK, mutant)
    assert result.reason == ""
    return [finding.planted for finding in result.findings if not finding.passed]


@pytest.mark.parametrize("name", ["spans", "recapture", "pageable"])
def test_on_a_device_that_makes_no_mistakes_they_pass(name):
    assert failed(name) == []


def test_copies_that_are_known_exactly_differ_in_nothing_but_what_is_below_the_resolution():
    # modelled copies have no error, so that even short ones have a fraction
    assert failed("copies") == ["queued copies of 32 and 128 KiB that have an overlap fraction"]


@pytest.mark.parametrize("name", ["observed", "tables_observed"])
def test_where_no_memory_races_nothing_arrives_corrupt_and_that_is_told(name):
    (only,) = failed(name)
    assert "corrupt" in only


def test_a_checksum_that_is_blind_on_one_side_cries_wolf():
    assert len(failed("observed", "checksum_blind")) == 3


def test_without_torchs_statistics_allocations_are_not_right():
    assert len(failed("allocations")) == 2


def test_a_cell_is_measured_from_its_three_arms():
    one, *_ = cell_specs("sim", quick=True, model="tiny", context=16)
    one["measure"] |= {"blocks": 12, "block_steps": 1, "settle_steps": 1}
    (cell,) = cells.measured_cells([one])
    # modelled copies have no error, and are timed; the host's times are this machine's
    assert (cell.mib, cell.handoff, cell.road, cell.copy_ns, cell.exposed) == (0.125, "sync", "compute", 4_992, True)
    assert None not in (cell.order_ns, cell.skip_ns)
    assert cell.replayed_ns > 0


HOST_NS = {
    "schedule": 60_000, "update_states": 30_000, "dispatch": 20_000, "commit_block_table": 40_000,
    "build_indices": 80_000, "copy_inputs": 60_000, "slot_mapping": 50_000, "attention_metadata": 20_000,
    "lm_head": 30_000, "sample": 30_000, "update_from_output": 40_000,
}  # fmt: skip
"""What the host takes where nothing of it is this machine's."""


@pytest.mark.parametrize("mutant", [None, *next(check for check in CHECKS if check.name == "cells").mutants])
def test_cells_agree_to_the_nanosecond_where_host_times_are_declared_and_no_mutant_does(monkeypatch, mutant):
    # GIVEN synchronous scheduling, 2 MiB, two roads
    def declared(name, **settings):
        return make_device(name, **settings, host=DeclaredHost(HOST_NS))

    def specs(device, *, quick):
        one = cell_specs("sim", quick=False, model="tiny", context=16)[2]
        one["grid"]["runner.table_width"] = [8192]
        one["measure"] |= {"blocks": 12, "repeats": 1}
        one["zip"] = {name: values[::2] for name, values in one["zip"].items()}
        return [one]

    monkeypatch.setattr(session, "make_device", declared)
    monkeypatch.setattr(cells, "cell_specs", specs)
    (check,) = (check for check in CHECKS if check.name == "cells")
    agreement, _ = run_check(check, QUICK, mutant).findings
    assert agreement.passed is (mutant is None)
    told = {None: "2 MiB, sync, double 44.4 against 44.4", "copies_forgotten": "2 MiB, sync, double 0.0 against 44.4"}
    assert told[mutant] in agreement.planted


def test_what_padding_costs_is_asked_of_several_runners_and_looks_and_of_their_kernels(monkeypatch):
    # GIVEN runners of which one's padding costs 18 us more beside long rows, looks of which one was disturbed, and
    # attention of 300 us and 5 ms
    looks, seen = iter([0, 0, 0, 900_000] + [0] * 14), []
    kernels = iter([*[(0, 0), (0, 0)] * 2, (0, 0), (18_000, 0)])

    def measured(runner, config, bench, shapes):
        seen.append([shape.kv_tokens for shape in shapes])
        return [types.SimpleNamespace(padded_ns=1_014_000, actual_ns=1_000_000),
                types.SimpleNamespace(padded_ns=4_005_000 + next(looks), actual_ns=4_000_000)]  # fmt: skip

    def traced(runner, config, bench, shape):
        other, attention = next(kernels)
        base = 300_000 if shape.kv_tokens == 72 * 512 else 5_000_000
        return (KernelTimes(base + 4_000 + attention, 715_000 + other), KernelTimes(base, 700_000))

    monkeypatch.setattr(padding_runs, "measure_replays", measured)
    monkeypatch.setattr(padding_runs, "replay_kernels", traced)
    monkeypatch.setattr(padding_runs, "build_runner", lambda *a: object())
    monkeypatch.setattr(padding_runs, "GpuBench", object)
    equal, *free = padding_runs._measured(replace(QUICK, quick=False))
    assert (equal.passed, equal.found, len(seen)) == (True, "6 us", 18)
    assert equal.planted.endswith(
        "15.0 us more at KV 512; at 8192 that and (of each runner 0.0, 0.0, 18.0; whole replays 14.0 and 5.0 us more)"
    )
    assert [(finding.passed, finding.found) for finding in free] == [(True, "4 us")] * 2
    # AND attention over padding with a past takes a third more, and a trace without attention says nothing
    kernels = iter([(0, 96_000), (0, 1_660_000)] * 3)
    looks = iter([0] * 18)
    assert [found.passed for found in padding_runs._measured(replace(QUICK, quick=False))] == [True, False, False]
    assert not padding_runs._free(512, [padding_runs.PaddingCost(0.0, 0.0, 0.0, 0.0)]).passed
