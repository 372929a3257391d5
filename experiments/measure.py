"""One point, measured in one piece."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path

from ..instrumentation.recording.meta import SweepKeys
from .loop import LoopLimits
from .overhead import alternates
from .resolve import measured_steps
from .session import Measured, Progress, Session
from .spec import PointSpec

__all__ = ["Measured", "measure"]


def measure(
    spec: PointSpec,
    folder: Path,
    *,
    sweep: SweepKeys | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Progress = lambda done, total: None,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Measured:
    """Run the resolved point `spec` and write its recording to `folder`. The steps run inside `around`: a profiler.

    Raises UsageError for what cannot be built, BrokenInvariant when a check of the runner fails.
    """
    with closing(Session(spec, folder, sweep=sweep, progress=progress)) as session:
        steps = measured_steps(spec.measure, spec.device)
        warmup = spec.measure.warmup_steps or 0
        limits = LoopLimits(warmup_steps=warmup, steps=steps)
        if alternates(spec.measure, spec.device):
            limits = replace(limits, uncounted=session.measure_overhead())
        with around():
            session.run(limits, interrupted)
        return session.finish()
