"""What a session's recording says about itself: where and how it was measured, and at its end how the run went."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import msgspec

from ..instrumentation.recording.meta import ClockInfo, ProcessKeys, RecordingMeta, SweepKeys
from ..instrumentation.recording.reader import Recording
from ..instrumentation.recording.registry import Value
from ..instrumentation.recording.storage import META_FILE, write_json
from ..runner.devices.base import Device
from ..runner.devices.calibration import load_calibration
from ..runner.invariants.checker import CheckReport
from ..workloads.workload import Workload
from .loop import LoopOutcome
from .plan import parameters
from .spec import PointSpec


def session_meta(
    spec: PointSpec, workload: Workload, device: Device, environment: dict[str, Value], sweep: SweepKeys | None
) -> RecordingMeta:
    """Of the point `spec`, resolved, on `device`."""
    clock_id = device.clock.clock_id
    calibration = None
    if device.modelled:
        costs = load_calibration(spec.calibration)
        calibration = f"{spec.calibration}: {costs.gpu}, driver {costs.driver}, {costs.date}, shape {spec.cost_model}"
    return RecordingMeta(
        source="lab",
        device=device.name,
        modelled=device.modelled,
        calibration=calibration,
        environment=environment,
        clocks=(ClockInfo(clock_id=clock_id, kind="virtual" if device.modelled else "measured"),),
        configuration={
            **parameters(spec),
            "name": workload.name,
            "notes": [*workload.notes, f"tokens come from random weights of the shape {spec.runner.model}"],
            "scheduler": dataclasses.asdict(workload.scheduler),
        },
        process=ProcessKeys(host=platform.node(), pid=os.getpid(), rank=0, device=device.name, clock_id=clock_id),
        sweep=sweep,
    )


def with_outcome(recording: Recording, outcome: LoopOutcome, checks: CheckReport, folder: Path | None) -> Recording:
    """The recording with the loop's outcome in its configuration: it is known only at the end."""
    configuration: dict[str, Any] = {
        **recording.meta.configuration,
        "outcome": dataclasses.asdict(outcome),
        "checks": dataclasses.asdict(checks),
    }
    meta = msgspec.structs.replace(recording.meta, configuration=configuration)
    if folder is not None:
        write_json(folder / META_FILE, meta)
    return Recording(meta, recording.tables)
