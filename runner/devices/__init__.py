"""Devices by name. Each is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ...errors import UsageError
from ...instrumentation.probe.ledger import Ledger

if TYPE_CHECKING:  # for annotations; the modules themselves are imported inside the factory
    from .base import Device
    from .calibration import Calibration
    from .sim_clock import DeclaredHost

DEVICES = ("cpu", "sim", "cuda")
DEFAULT_CALIBRATION = "h200"
DEFAULT_COST_MODEL = "llama-1b"


def make_device(
    name: str, *, ledger: Ledger, calibration: Calibration | str | None = None, cost_model: str | None = None,
    host: Literal["measured"] | DeclaredHost = "measured", timing: bool = True,
) -> Device:
    """The device called `name`, writing into `ledger`.

    calibration, cost_model   of `sim` only: a Calibration, a bundled name or a path (default: h200); a model in it
    host                      of `sim` only: "measured", or a DeclaredHost for deterministic host times
    timing                    of `cuda` only: events around device operations; without them device times are unknown
    Raises UsageError for an unknown device, calibration or cost model, each with the known ones.
    """
    if name == "cpu":
        from .cpu import CpuDevice

        return CpuDevice(ledger)
    if name == "sim":
        return _make_sim(ledger, calibration, cost_model, host)
    if name == "cuda":
        from .cuda_factory import make_cuda

        return make_cuda(ledger, timing=timing)
    raise UsageError(f"unknown device {name!r}; known: {', '.join(DEVICES)}")


def _make_sim(
    ledger: Ledger, calibration: Calibration | str | None, cost_model: str | None,
    host: Literal["measured"] | DeclaredHost,
) -> Device:
    from .calibration import load_calibration
    from .costs import CostModel
    from .sim import SimDevice
    from .sim_clock import DeclaredClock, MeasuredSimClock, SimClock

    if calibration is None or isinstance(calibration, str):
        calibration = load_calibration(calibration or DEFAULT_CALIBRATION)
    clock: SimClock = MeasuredSimClock() if host == "measured" else DeclaredClock(host.costs_ns, host.start_ns)
    return SimDevice(ledger, clock, CostModel(calibration, cost_model or DEFAULT_COST_MODEL))
