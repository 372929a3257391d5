"""What the reports ask of a Recording: its tables, and what `recording.json` says of it."""

from __future__ import annotations

from typing import Protocol

import pandas as pd

from ...instrumentation.recording.meta import RecordingMeta


def calibration_name(calibration: str) -> str:
    """The name alone: "h200: NVIDIA H200, driver 580" → "h200". What follows the colon describes it."""
    return calibration.split(":")[0].strip()


class RecordingLike(Protocol):
    """A Recording, or anything that answers like one (tests, a part of a recording)."""

    @property
    def meta(self) -> RecordingMeta:
        """The content of recording.json."""
        ...

    def table(self, name: str) -> pd.DataFrame:
        """The table `name`, empty when nothing was recorded."""
        ...
