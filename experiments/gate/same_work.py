"""Whether two arms measure the same work on the same machine: only then is a difference the code's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...analysis.gate.fingerprint import differences, told
from ...analysis.gate.verdict import Reason

_NAMES = {"gpu_name": "gpu", "gpu_driver": "driver", "gpu_mig": "mig"}
_TRIED = ("python", "torch", "triton", "engine", "cuda")
"""What two arms may differ in, because it may be what is being compared (another interpreter)."""


def machine_of(opened: Mapping[str, Any]) -> dict[str, Any]:
    """The environment that an arm told, under the gate's names. A modelled device is its own kind of GPU."""
    known = {_NAMES.get(key, key): value for key, value in opened["environment"].items()}
    if opened["device"] != "cuda":
        known["gpu"] = f"none ({opened['device']}, calibration {opened['calibration']})"
    return known


def why_incomparable(opened: Mapping[str, Mapping[str, Any]]) -> tuple[Reason, str] | None:
    """What differs between "base" and "head" beyond the code; None where nothing does."""
    base, head = opened["base"], opened["head"]
    machines = [{k: v for k, v in machine_of(one).items() if k not in _TRIED} for one in (base, head)]
    found = differences(*machines)
    if found:
        unknown = any(item.unknown for item in found)
        return (Reason.UNKNOWN_MACHINE if unknown else Reason.OTHER_MACHINE), told(found)
    work = [one["parameters"]["workload"] for one in (base, head)]
    key = next((name for name in work[0] if name in work[1] and work[0][name] != work[1][name]), None)
    if key is not None:  # a field that only one version of the code knows is no difference of the work
        return Reason.OTHER_WORK, f"workload.{key}: {work[0][key]} / {work[1][key]}"
    return None
