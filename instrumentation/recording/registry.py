"""The keys that an environment fingerprint may hold: type, unit and meaning of each, in the order of showing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """One key. `unit` is what a report formats by: empty, "bytes", "mhz"."""

    type: type
    label: str
    unit: str = ""


ENVIRONMENT_KEYS: dict[str, EnvironmentKey] = {
    "stepscope": EnvironmentKey(str, "stepscope version"),
    "probe": EnvironmentKey(str, "the probe's calls are in"),
    "python": EnvironmentKey(str, "Python version"),
    "os": EnvironmentKey(str, "operating system and kernel release"),
    "machine": EnvironmentKey(str, "processor architecture"),
    "cpu_model": EnvironmentKey(str, "CPU model"),
    "cpu_count": EnvironmentKey(int, "logical CPUs of the machine"),
    "cpu_usable": EnvironmentKey(int, "logical CPUs that the process may run on"),
    "memory_bytes": EnvironmentKey(int, "memory of the machine", "bytes"),
    "memory_limit_bytes": EnvironmentKey(int, "memory limit of the container", "bytes"),
    "torch": EnvironmentKey(str, "torch version"),
    "triton": EnvironmentKey(str, "triton version"),
    "numpy": EnvironmentKey(str, "NumPy version"),
    "pandas": EnvironmentKey(str, "pandas version"),
    "pin_memory": EnvironmentKey(bool, "page-locked memory is to be had"),
    "pin_memory_reason": EnvironmentKey(str, "why it is not"),
    "nvml": EnvironmentKey(str, "NVML: ok or unavailable"),
    "nvml_reason": EnvironmentKey(str, "why NVML is unavailable"),
    "gpu_name": EnvironmentKey(str, "GPU"),
    "gpu_count": EnvironmentKey(int, "GPUs that NVML sees"),
    "gpu_driver": EnvironmentKey(str, "GPU driver version"),
    "gpu_memory_bytes": EnvironmentKey(int, "memory of the GPU", "bytes"),
    "gpu_mig": EnvironmentKey(bool, "the GPU is split (MIG)"),
    "gpu_max_sm_clock_mhz": EnvironmentKey(int, "highest SM clock", "mhz"),
}


def check_environment(environment: Mapping[str, Value]) -> None:
    """Raise ValueError for a key that is not registered, or a value of another type; null is always allowed."""
    for key, value in environment.items():
        known = ENVIRONMENT_KEYS.get(key)
        if known is None:
            raise ValueError(f"environment: unknown key {key!r}")
        if value is not None and type(value) is not known.type:
            raise ValueError(f"environment: {key} is {type(value).__name__}, not {known.type.__name__}")
