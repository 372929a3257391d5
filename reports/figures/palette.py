"""Colours with one meaning each, the same on every page, and the small helpers that all figures share."""

from __future__ import annotations

import math
from collections.abc import Iterable

PREPROCESS = "#3a7fc2"
FORWARD = "#2f9e77"
SAMPLE = "#e08a2e"
BETWEEN = "#b4bcc9"
COPY = "#8456c7"
OVERLAP = "#d6336c"
WAIT = "#c9a9a0"
LAUNCH = "#6b7a90"
HIDDEN = "#b9a3e3"
RANGE = "#8fbbe6"
DEVICE = "#5aa9b5"
OTHER_PHASE = "#9c7a3c"

PHASE_COLOURS: dict[str, str] = {
    "preprocess": PREPROCESS, "forward": FORWARD, "sample": SAMPLE, "between_steps": BETWEEN,
}

RANGE_COLOURS: dict[str, str] = {
    "update_states": "#1f5f9c", "commit_block_table": "#6f9bd8", "build_indices": "#2f6fb5", "copy_inputs": "#84a9d9",
    "slot_mapping": "#4f8cc9", "attention_metadata": "#a5c3e6", "dispatch": "#c3d6ee",
}

SERIES: tuple[str, ...] = (PREPROCESS, SAMPLE, FORWARD, COPY, OVERLAP, "#5aa9b5", "#9c7a3c", LAUNCH)
"""Colours of things without a meaning of their own (points of a sweep), in order of use."""


def translucent(colour: str, alpha: float) -> str:
    """A hex colour with an alpha: ("#d6336c", 0.2) → "rgba(214,51,108,0.2)"."""
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def microseconds(values_ns: Iterable[int | float | None]) -> list[float | None]:
    """Nanoseconds as µs with three decimals for a plot; None and NaN stay gaps. For differences, not for timestamps."""
    return [None if v is None or math.isnan(v) else round(v / 1_000, 3) for v in values_ns]
