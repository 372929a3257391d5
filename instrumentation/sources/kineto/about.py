"""What a trace says of itself, from named fields only: others hold environments, tokens, users and hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...recording.registry import Value
from ..arrays import FURTHEST_NS

_FLAGS = ("record_shapes", "with_stack", "profile_memory")
_VERSIONS = ("schemaVersion", "cupti_version", "cuda_runtime_version", "cuda_driver_version")


def base_ns(metadata: Mapping[str, Any]) -> int:
    """baseTimeNanoseconds, which the times of newer traces count from, as an int, a text or with the fraction 0; 0 in
    older traces, whose times are absolute."""
    value = metadata.get("baseTimeNanoseconds")
    if isinstance(value, str):
        digits = value.removesuffix(".0")
        value = int(digits) if digits.isdecimal() and len(digits) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < FURTHEST_NS else 0


def rank(metadata: Mapping[str, Any]) -> int | None:
    """distributedInfo.rank; some writers leave it empty."""
    info = metadata.get("distributedInfo")
    value = info.get("rank") if isinstance(info, dict) else None
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def is_view(metadata: Mapping[str, Any]) -> bool:
    """Whether `perf report --format perfetto` made the file, for viewers: calls, copies and links are slices there."""
    other = metadata.get("otherData")
    return isinstance(other, dict) and {"origin_ns", "clock_ids", "rows_without_times"} <= other.keys()


def facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Versions and switches of the profiler: numbers and yes or no, no text."""
    found: dict[str, Any] = {}
    for key in (*_VERSIONS, *_FLAGS):
        value = metadata.get(key)
        if isinstance(value, (int, bool)):
            found[key] = bool(value) if key in _FLAGS else value
    found["base_time_ns"] = base_ns(metadata) or None
    return found


def environment(metadata: Mapping[str, Any]) -> dict[str, Value]:
    """The GPU's name and memory, and how many there are."""
    listed = metadata.get("deviceProperties")
    gpus = [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []
    if not gpus:
        return {}
    name, memory = gpus[0].get("name"), gpus[0].get("totalGlobalMem")
    return {
        "gpu_name": name if isinstance(name, str) and name else None,
        "gpu_memory_bytes": memory if isinstance(memory, int) and not isinstance(memory, bool) else None,
        "gpu_count": len(gpus),
    }
