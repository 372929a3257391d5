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
    work = [one["parameters"].get("workload") for one in (base, head)]
    if work[0] != work[1]:
        return Reason.OTHER_WORK, _first_difference(*work)
    return None


def _first_difference(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    for key in dict.fromkeys((*base, *head)):
        if base.get(key) != head.get(key):
            return f"workload.{key}: {base.get(key)} / {head.get(key)}"
    return "workload differs"
