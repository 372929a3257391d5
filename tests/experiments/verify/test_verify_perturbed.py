"""Runs that host work is injected into: how they are judged, on made recordings and on the `sim` device."""

from dataclasses import replace

import numpy as np
import pytest
from stepscope.experiments.verify import bound_gpu
from stepscope.instrumentation.recording.meta import RecordingMeta
from stepscope.instrumentation.recording.reader import Recording
from stepscope.instrumentation.recording.schema import SPANS, STEPS


def run_of(kind, period_ns, bound="device"):
    return bound_gpu.Perturbed(bound, period_ns if kind == "host" else 0.0, period_ns if kind == "device" else 0.0)


def test_injected_work_is_found_between_neighbours():
    # GIVEN periods that grow from step to step, and 50 us more in every second pair of steps
    for stretch in (1, 6):
        more = [50_000 * bound_gpu.injected(step, stretch) for step in range(16 * stretch)]
        periods = [1_000_000 + 2_000 * step + ns for step, ns in enumerate(more)]
        rows = {"steps": [_step(7 + step, period) for step, period in enumerate(periods)]}
        recording = Recording.from_ledger(rows, RecordingMeta(source="lab", device="cpu"))
        found = bound_gpu.looked_at(recording, stretch)
        assert found.by_host_ns == pytest.approx(50_000, abs=10)
        # AND without device times nothing is known of the device's
        assert np.isnan(found.by_device_ns)
    # AND twenty such runs are judged by what they are called and by what they felt
    runs = [run_of("host", 50_000.0, "host")] * 19
    for last, passes in ((run_of("host", 41_000.0, "host"), True), (run_of("host", 39_000.0), False)):
        assert [f.passed for f in bound_gpu.judged_runs("host", [*runs, last])] == [passes, passes]
    assert [f.passed for f in bound_gpu.judged_runs("device", [run_of("device", 10_000.0)])] == [True] * 3
    for moved in (10_001.0, -10_001.0):
        assert [f.passed for f in bound_gpu.judged_runs("device", [run_of("device", moved)])] == [True, False, True]
    # AND what is not known is not taken for nothing, whoever's starts it were
    nothing = float("nan")
    judged = bound_gpu.judged_runs("device", [bound_gpu.Perturbed("device", nothing, nothing)])
    assert [f.passed for f in judged] == [True, False, False]
    judged = bound_gpu.judged_runs("device", [bound_gpu.Perturbed("device", ns, 0.0) for ns in (14_000.0, 7_000.0)])
    assert [f.passed for f in judged] == [True, True, False]


class DeviceRun:
    """A run with two steps in flight whose device binds: forwards that grow in stairs and scatter, and a host whose
    starts are early and late, as on an H200. `felt_ns` of injected work reach the device, or lengthen its forwards.
    """

    def __init__(self, seed, felt_ns=0):
        kind, rng = bound_gpu.KINDS["device"], np.random.default_rng(seed)
        self.kind, place = kind, np.arange(kind.steps + 1)
        more = np.array([bound_gpu.injected(step, kind.stretch) for step in place])
        took = 5_000_000 + 400 * place + 60_000 * ((place + seed) // 128) + rng.normal(0, 7_000, len(place))
        self.forwards = np.concatenate(([0], np.cumsum(took + felt_ns * more)))
        slow = (place - rng.integers(0, kind.steps)) % 90 < 45
        seen = 300_000 * (place % 3 == seed % 3) + 150_000 * slow + rng.normal(0, 20_000, len(place))
        lost = 2_500_000 * (place >= rng.integers(0, kind.steps))
        self.starts = self.forwards[:-1] + seen + lost

    def recording(self, unknown=()):
        rows = {"steps": [_step(0, 0, True)], "spans": []}
        rows["steps"] += [_step(1 + at, ns) for at, ns in enumerate(np.diff(self.starts).round().astype(int).tolist())]
        for at, begin in enumerate(self.forwards[:-1].round().astype(int).tolist()):
            rows["spans"].append(_forward(at, None if at in unknown else begin))
        return Recording.from_ledger(rows, RecordingMeta(source="lab", device="cpu"))

    def by_device_ns(self, unknown=()):
        return bound_gpu.moved_ns(bound_gpu.device_periods(self.recording(unknown)), self.kind.stretch)


def test_runs_that_the_device_binds_are_not_moved_by_starts_that_are_early_and_late():
    # GIVEN tokens of every third step 0.3 ms late, a core that goes at x 1.8 for a while, and a step that was held up
    runs = [DeviceRun(seed) for seed in range(20)]
    # THEN the starts of forwards say so in every run to 5 us, and the host's starts do not
    assert max(abs(run.by_device_ns()) for run in runs) < 5_000
    by_host = [bound_gpu.moved_ns(bound_gpu.host_periods(run.recording()), 1) for run in runs]
    assert sum(abs(ns) > 10_000 for ns in by_host) >= 5
    # AND 20 us that reach the device, or its forwards, are found in every one of them
    felt = [DeviceRun(seed, felt_ns=20_000).by_device_ns() for seed in range(20)]
    assert min(felt) > 15_000
    assert max(felt) < 25_000


def test_stretches_with_a_forward_that_is_not_known_do_not_count_and_half_of_them_must():
    run = DeviceRun(0)
    assert abs(run.by_device_ns(unknown=(3, 40))) < 5_000
    assert np.isnan(run.by_device_ns(unknown=range(0, 145, 12)))


def _forward(step, start_ns):
    end_ns = None if start_ns is None else start_ns + 4_000_000
    known = {"name": "graph[64]", "kind": "graph", "lane": "gpu:compute", "start_ns": start_ns, "end_ns": end_ns}
    return (step, *(known.get(column.name) for column in SPANS))


def _step(number, period_ns, warmup=False):
    known = {"start_ns": number * 10**9, "end_ns": number * 10**9 + 1, "warmup": warmup, "complete": True}
    return (number, *(known.get(column.name, period_ns if column.name == "period_ns" else None) for column in STEPS))


def test_the_runner_is_perturbed_and_judged(monkeypatch):
    monkeypatch.setitem(bound_gpu.KINDS, "host", replace(bound_gpu.KINDS["host"], steps=8))
    monkeypatch.setattr(bound_gpu, "INJECTED_NS", 3_000_000)
    (run,) = bound_gpu.perturbed("host", 1, "sim")
    assert run.bound == "host"
    assert run.by_host_ns > 1_500_000


def test_runs_said_to_be_bound_by_the_device_fail_where_injected_work_reaches_it(monkeypatch):
    # GIVEN an empty forward in the long one's place
    small = replace(bound_gpu.KINDS["device"], model="tiny", num_reqs=2, prompt_len=8, steps=4 * 6)
    monkeypatch.setitem(bound_gpu.KINDS, "device", small)
    monkeypatch.setattr(bound_gpu, "INJECTED_NS", 20_000_000)
    runs = bound_gpu.perturbed("device", 1, "sim")
    # THEN the work is in the starts of its forwards, and all three findings fail
    assert runs[0].by_device_ns > 5_000_000
    assert [finding.passed for finding in bound_gpu.judged_runs("device", runs)] == [False] * 3
