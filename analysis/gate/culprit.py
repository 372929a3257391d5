"""Where in the step a slowdown sits: the host phase that grew most, and the sub-range in it that grew most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..phases import HOST_PHASES
from .pairs import Floats

_LEAST_SHARE = 0.5
"""A phase or range is named when it holds at least so much of what the step has lost."""
SUB_RANGES = (
    "update_states", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping", "attention_metadata",
    "dispatch",
)  # fmt: skip
"""Of preprocess; no other phase has any."""


def culprit(
    period_ns: float, phases: Mapping[str, Floats], ranges: Mapping[str, Floats]
) -> tuple[str, ...]:
    """Names, outermost first, of what holds most of a slowdown of `period_ns`; empty where no single place does.

    phases, ranges   name -> [launches] head - base, ns
    """
    phase = _largest({name: phases[name] for name in HOST_PHASES if name in phases}, period_ns)
    if phase is None:
        return ()
    grown = float(np.mean(phases[phase]))
    inner = {name: ranges[name] for name in SUB_RANGES if name in ranges} if phase == HOST_PHASES[0] else {}
    found = _largest(inner, grown)
    return (phase,) if found is None else (phase, found)


def _largest(differences: Mapping[str, Floats], whole_ns: float) -> str | None:
    means = {name: float(np.mean(values)) for name, values in differences.items() if np.isfinite(values).all()}
    name = max(means, key=lambda key: means[key], default=None)
    return name if name is not None and means[name] >= _LEAST_SHARE * whole_ns > 0 else None
