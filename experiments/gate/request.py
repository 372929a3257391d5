"""What a paired gate, or a calibration, is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...analysis.gate.limits import Limits
from .arms import Arm
from .points import Blocks


@dataclass(frozen=True, slots=True)
class GateRequest:
    """`arms`: base and head. `metrics`: none takes all. `calibration`: a file; None takes the machine's."""

    arms: tuple[Arm, Arm]
    spec: Path | None = None
    params: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    blocks: Blocks = field(default_factory=Blocks)
    calibration: Path | None = None
    allow_new: bool = False
    confirm: bool = True
