"""Device, probe, runner, scheduler and loop put together; a Recording comes out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from ..analysis.pace import window_of
from ..errors import MeasurementError
from ..instrumentation.environment import fingerprint
from ..instrumentation.probe import Ledger, Probe
from ..instrumentation.recording.meta import Diagnostic, RecordingMeta, SweepKeys
from ..instrumentation.recording.reader import Recording
from ..instrumentation.recording.writer import RecordingWriter
from ..instrumentation.telemetry import TelemetrySampler
from ..runner.config import RunnerConfig
from ..runner.devices import make_device
from ..runner.devices.base import Device
from ..runner.devices.calibration import load_calibration
from ..runner.devices.calibration_rows import CalibrationRow, calibration_rows
from ..runner.invariants.checker import CheckReport
from ..runner.model_runner import ModelRunner, build_runner
from .between_steps import BetweenSteps, Progress, RowSink
from .continuations import continuations_of
from .identity import probe_language
from .loop import LoopLimits, LoopOutcome, StepLoop
from .overhead import Overhead
from .own_costs.captures import capture_rows, graph_notes
from .own_costs.shapes import ReplayTally
from .resolve import workload_of
from .session_meta import session_meta, with_outcome
from .spec import PointSpec

__all__ = ["Measured", "Progress", "RowSink", "Session"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one point gave."""

    recording: Recording
    outcome: LoopOutcome
    checks: CheckReport


@contextmanager
def _quiet() -> Iterator[None]:
    """One thread for the mathematics that stands in for kernels, and no garbage collection over older objects.

    More threads would spin for a while after each operation and take the core from what is measured; on a busy machine
    they also make the mathematics slower.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_num_threads(threads)


class Session:
    """One runner on one device, with its probe, its loop and its recording: run in one piece or in several.

    Several of them may live in one process; `activate` comes before any work on one of them. With `rows` the session
    makes no recording: it gives its rows there, and whoever keeps them makes one (`books`, `measured`).
    """

    def __init__(
        self, spec: PointSpec, folder: Path, *, sweep: SweepKeys | None = None,
        progress: Progress = lambda done, total: None, rows: RowSink | None = None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self._folder = folder
        self._outcome: LoopOutcome | None = None
        self._workload = workload_of(spec)
        known = continuations_of(spec, self._workload)
        self._ledger = Ledger()
        self._sampler = TelemetrySampler()
        self.device = _device(spec, self._ledger)
        try:
            self.probe = Probe(self._ledger, self.device.clock, marks=self.device)
            self.runner = build_runner(spec.runner, self.device, self.probe, self._ledger, continuations=known)
            self._ledger.take()  # what building did (captures, fills) is no step
            self._meta = self.meta_of(spec, sweep)
            self._writer = RecordingWriter(folder, self._meta) if rows is None else rows
            self._tally = ReplayTally()
            hook = BetweenSteps(self.device, self.probe, self._writer, self._sampler, progress, self._tally)
            self._hook = hook
            self.loop = StepLoop(self._workload, self.runner, self.probe, self.device)
        except BaseException:
            self.close()
            raise

    def measure_overhead(self) -> frozenset[int]:
        """Before the first step: the probe will be silent in these steps; what it costs goes into the recording."""
        overhead = Overhead(self.warmup_steps, window_of(self._workload.steps_in_flight))
        self._hook.overhead = overhead
        return overhead.silent

    def activate(self) -> None:
        """Before any work: of several sessions this is the one that works now."""
        self.device.activate()

    def run(
        self, limits: LoopLimits, interrupted: Callable[[], bool] = lambda: False, *, drain: bool = True
    ) -> None:
        """Go on until `limits`, which count from the session's first step. `drain`: then collect what is in flight."""
        with _quiet():
            self._outcome = self.loop.run(limits, interrupted=interrupted, progress=self._hook, drain=drain)

    @property
    def warmup_steps(self) -> int:
        """Steps that are not measured, before everything else."""
        return self.spec.measure.warmup_steps or 0

    def block(self, settle: int, steps: int, interrupted: Callable[[], bool] = lambda: False) -> list[int]:
        """Run `settle` steps, `steps` counted ones and one more; the starts of the counted ones and of the last.

        Rows of the others carry `warmup`. Nothing is measured behind it, so the rows so far go to the writer; nothing
        is in flight then, so that others may use the device.
        """
        starts: list[int] = []
        self._hook.starts_ns = starts
        begin = self.loop.num_steps + settle
        end = begin + steps  # in one go: a pause before the last step would lengthen the last period
        self.run(LoopLimits(warmup_steps=begin, steps=steps + 1, uncounted=frozenset({end})), interrupted)
        self._hook.starts_ns = None
        self.hand_over()
        return starts[settle:]

    @property
    def padded(self) -> bool:
        """Whether counted steps replayed graphs that were larger than they; of the rows handed over so far."""
        return any(shape.size != shape.tokens for shape in self._tally.shapes())

    def hand_over(self) -> None:
        """Give the rows so far to the writer: at a moment when nothing is measured."""
        self._hook.hand_over()

    def finish(self, *, own_costs: bool = True) -> Measured:
        """The recording. `own_costs` measures T(size) of the run's own shapes first, which overwrites the cache.

        On a GPU the block table's copy is timed as well, in any case: that takes milliseconds.
        Raises MeasurementError where rows were lost; those that were not are in the recording.
        """
        notes = self.books(own_costs=own_costs)
        writer = self._writer
        assert isinstance(writer, RecordingWriter), "this session's rows went elsewhere"
        measured = self.measured(writer.finish(*notes), self._folder)
        if writer.dropped_rows:
            raise MeasurementError(
                f"{self._folder}: {writer.dropped_rows:,} rows of the recording were lost: the disk did not take them;"
                " make room and measure again"
            )
        return measured

    def meta_of(self, spec: PointSpec, sweep: SweepKeys | None) -> RecordingMeta:
        """What a recording of this session says about itself where it stands for the point `spec`."""
        sampler, device = self._sampler.environment(), self.device
        environment = fingerprint(sampler, pinned=device.pinned, pinned_reason=device.pinned_reason)
        environment["probe"] = probe_language(self.probe.language, events=device.name == "cuda")
        return session_meta(spec, self._workload, device, environment, sweep)

    def books(self, *, own_costs: bool) -> list[Diagnostic]:
        """Hand over the last rows, costs included; what the recording has to say beside them. See `finish`."""
        assert self._outcome is not None, "nothing was run"
        outcome, device, spec = self._outcome, self.device, self.spec
        meta, writer = self._meta, self._writer
        device.synchronize()
        self.runner.settle_verdicts()
        self.probe.finish()
        writer.write(self._tally.take(self._ledger))
        writer.write({"calibration": [(None, *row) for row in _calibration(spec, device, meta)]})
        if self._hook.overhead is not None:
            writer.write({"calibration": [(None, *row) for row in self._hook.overhead.rows(meta.environment)]})
        said = (*self.probe.diagnostics(), *device.diagnostics(), *self._sampler.diagnostics())
        notes = [Diagnostic(*note) for note in said]
        notes += _rank_notes(spec.runner, device)
        notes += graph_notes(device.captures, self.runner.executor.uncaptured)
        if meta.environment["pin_memory"] and not device.pinned:
            notes.append(Diagnostic("buffers", "memory", device.pinned_reason))
        costs = spec.measure.device_events and spec.measure.keep == "recording"
        if device.name == "cuda" and costs and outcome.stopped != "interrupted":
            notes += _own_costs(self.runner, spec, self._tally, writer, meta, replays=own_costs)
        return notes

    def measured(self, recording: Recording, folder: Path | None) -> Measured:
        """A recording of this session's rows, which was saved in `folder` (None: nowhere), with the run's outcome."""
        assert self._outcome is not None, "nothing was run"
        checks = self.runner.checks.report()
        return Measured(with_outcome(recording, self._outcome, checks, folder), self._outcome, checks)

    def close(self) -> None:
        """Give everything back; the runner's memory is free once nobody refers to the session."""
        self.device.close()
        self._sampler.close()


def _calibration(spec: PointSpec, device: Device, meta: RecordingMeta) -> list[CalibrationRow]:
    """The costs that a modelled device went by, or what captures took of a real one."""
    if device.modelled:
        return calibration_rows(load_calibration(spec.calibration), spec.cost_model)
    return capture_rows(device.captures, meta.environment)


def _rank_notes(runner: RunnerConfig, device: Device) -> list[Diagnostic]:
    """Whose rows these are where one process does the work of several ranks."""
    if runner.dcp == 1:
        return []
    reason = f"the {runner.dcp} ranks of dcp ran side by side in this process: rows are all theirs, no collective ran"
    if device.modelled:
        reason += "; the forward is charged as attention over one cache, neither cut nor merged"
    return [Diagnostic("spans", "rank", reason)]


def _own_costs(
    runner: ModelRunner, spec: PointSpec, tally: ReplayTally, writer: RowSink, meta: RecordingMeta, *,
    replays: bool,
) -> list[Diagnostic]:  # fmt: skip
    """Write what this run's own shapes cost. The last thing that the runner does: its cache is overwritten."""
    from .own_costs.rows import copy_rows, cost_rows

    driver = str(meta.environment.get("gpu_driver") or "")
    rows, notes = cost_rows(runner, spec.runner, tally, driver) if replays else ([], [])
    writer.write({"calibration": [(None, *row) for row in (*rows, *copy_rows(tally, driver))]})
    return notes


def _device(spec: PointSpec, ledger: Ledger) -> Device:
    if spec.device == "sim":
        return make_device("sim", ledger=ledger, calibration=spec.calibration, cost_model=spec.cost_model)
    return make_device(spec.device, ledger=ledger, timing=spec.measure.device_events)
