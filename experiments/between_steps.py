"""What happens after each step of a session, outside the measured host time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..instrumentation.probe import Probe
from ..instrumentation.probe.ledger import Row
from ..instrumentation.telemetry import TelemetrySampler
from ..runner.devices.base import Device
from .overhead import Overhead
from .own_costs.shapes import ReplayTally

Progress = Callable[[int, int], None]
SAMPLE_EVERY_NS = 1_000_000_000
ROWS_EVERY_STEPS = 512
"""Steps between two hand-overs of the ledger: few enough to keep memory small, many enough to be rare."""
ROWS_EVERY_NS = 10_000_000_000
"""The same in time, for slow steps: what a kill loses. Steps below 100 ms have a hundred between two, so that the 99th
percentile of their periods is of steps without one."""


class RowSink(Protocol):
    """Where the rows of a session go."""

    def write(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Take rows by table."""
        ...

    def flush_if_due(self, now_ns: int) -> None:
        """Called between steps."""
        ...


class BetweenSteps:
    """Called after each step: rows to the writer, telemetry, progress."""

    def __init__(
        self, device: Device, probe: Probe, writer: RowSink, sampler: TelemetrySampler, progress: Progress,
        tally: ReplayTally,
    ) -> None:  # fmt: skip
        self._device, self._probe, self._writer, self._tally = device, probe, writer, tally
        self._ledger = probe.ledger
        self._sampler, self._progress = sampler, progress
        self._num_steps = 0
        self._next_sample_ns = 0
        self._handed_ns = time.monotonic_ns()  # a modelled device's own clock stands still while others wait
        self.starts_ns: list[int] | None = None
        """Starts of the steps, while somebody wants them."""
        self.overhead: Overhead | None = None

    def __call__(self, done: int, total: int) -> None:
        """A step has ended; `done` of `total` requests or steps are."""
        with self._device.paused():
            self._num_steps += 1
            if self.starts_ns is not None:
                self.starts_ns.append(self._probe.last_start_ns)
            if self.overhead is not None:
                self.overhead.after_step(self._num_steps - 1, self._probe)
            now_ns = self._device.clock.now_ns()
            if now_ns >= self._next_sample_ns and self._sampler.unavailable is None:
                self._next_sample_ns = now_ns + SAMPLE_EVERY_NS
                self._ledger.add("telemetry", *self._sampler.sample(now_ns))
            passed_ns = time.monotonic_ns()
            if self._num_steps % ROWS_EVERY_STEPS == 0 or passed_ns - self._handed_ns >= ROWS_EVERY_NS:
                self.hand_over()
            self._writer.flush_if_due(passed_ns)
            self._progress(done, total)

    def hand_over(self) -> None:
        """Give the rows so far to the writer."""
        self._handed_ns = time.monotonic_ns()
        self._writer.write(self._tally.take(self._ledger))
