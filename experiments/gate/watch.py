"""What the machine did while a block ran: the device through NVML, the processor through /proc."""

from __future__ import annotations

import time

from ...analysis.gate.conditions import Conditions
from ...instrumentation.machine_load import LoadReading, change, read_load
from ...instrumentation.recording.schema import TELEMETRY
from ...instrumentation.telemetry import TelemetrySampler

_COLUMNS = tuple(column.name for column in TELEMETRY)


class Watch:
    """Watches one block at a time: `begin`, `look` while it runs, `end`."""

    def __init__(self, sampler: TelemetrySampler, *, device: bool) -> None:
        self._sampler = sampler
        self._device = device and sampler.unavailable is None
        self._resident: frozenset[int] | None = None
        self._samples: list[dict[str, int | None]] = []
        self._foreign: int | None = None
        self._before: LoadReading | None = None

    def settled(self) -> None:
        """Both arms are there now: whoever comes to the device later is a stranger."""
        self._resident = self._sampler.processes() if self._device else None

    def begin(self, pid: int) -> None:
        """The block of process `pid` starts."""
        self._samples, self._foreign = [], None
        self._before = read_load(pid)
        self.look()

    def look(self) -> None:
        """One sample."""
        if not self._device:
            return
        self._samples.append(dict(zip(_COLUMNS, self._sampler.sample(time.monotonic_ns()), strict=True)))
        present = self._sampler.processes()
        if present is not None and self._resident is not None:
            self._foreign = max(self._foreign or 0, len(present - self._resident))

    def end(self, pid: int) -> Conditions:
        """The block has ended."""
        self.look()
        assert self._before is not None, "no block was begun"
        load = change(self._before, read_load(pid))
        reasons = [sample["throttle_reasons"] for sample in self._samples]
        known = [reason for reason in reasons if reason is not None]
        throttle = None
        for reason in known:
            throttle = (throttle or 0) | reason
        return Conditions(
            throttle, self._mean("sm_clock_mhz"), self._mean("temperature_c"), self._foreign, load.steal_share,
            load.wait_share, load.cpu_mhz, load.load, load.migrations, load.involuntary,
        )  # fmt: skip

    def _mean(self, column: str) -> float | None:
        known = [value for sample in self._samples if (value := sample.get(column)) is not None]
        return sum(known) / len(known) if known else None
