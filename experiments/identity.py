"""What must be equal for two points to belong to one sweep: our own code, the libraries, the machine, the GPU."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

from ..instrumentation.environment import fingerprint
from ..instrumentation.probe.native import native, native_events
from ..instrumentation.recording.registry import Value

ENGINE = ("engine", "stepscope", "torch", "triton", "numpy", "python", "probe")
"""What runs."""
MACHINE = ("machine", "os", "cpu_model", "gpu_name", "gpu_driver")
"""What it runs on."""
_MEASURED_BY = ("workloads", "runner", "instrumentation", "experiments")
_SOURCES = frozenset({".py", ".c", ".h"})
_NAMES = {"engine": "stepscope's source", "cpu_model": "CPU", "gpu_name": "GPU", "gpu_driver": "driver", "os": "kernel"}

Identity = Mapping[str, Value]


def identity(gpu: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """This process's. `gpu` is what a TelemetrySampler tells; None asks one."""
    if gpu is None:
        from ..instrumentation.telemetry import TelemetrySampler

        sampler = TelemetrySampler()
        gpu = sampler.environment()
        sampler.close()
    known = {**fingerprint(gpu), "engine": source_digest(), "probe": probe_language("C" if native() else "Python")}
    return {name: known.get(name) for name in (*ENGINE, *MACHINE)}


def probe_language(calls: str, *, events: bool = True) -> str:
    """What the probe is in: half of what a host's step costs it, or twice that. `calls`: what its calls are in;
    `events`: whether it records any on a GPU, which may be in Python while all else is in C."""
    return "C, events in Python" if calls == "C" and events and native_events() is None else calls


@functools.cache
def source_digest() -> str:
    """A hash of our own source files that take part in a measurement, by name and content."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in _MEASURED_BY:
        for path in sorted(path for path in (root / folder).rglob("*") if path.suffix in _SOURCES):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:12]


def differences(one: Identity, other: Identity, names: tuple[str, ...] = (*ENGINE, *MACHINE)) -> list[str]:
    """`torch 2.9 -> 2.10` for each name whose values differ; what one of them does not say counts as different."""
    return [
        f"{_NAMES.get(name, name)} {one.get(name)} -> {other.get(name)}"
        for name in names
        if one.get(name) != other.get(name)
    ]
