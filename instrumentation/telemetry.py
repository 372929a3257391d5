"""What the GPU's driver says about itself, through NVML; null, with the reason, where it does not say.

NVML is loaded when a sampler is opened and not before. No failure of it ever reaches the run: an absent module or
library, a query that this GPU, driver, container or WSL does not support, each gives null and a reason.
Left out: the PCIe throughput counters, which block for about 20 ms.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .recording.registry import Value
from .recording.schema import TELEMETRY
from .visible import first_handle

_COLUMNS = tuple(column.name for column in TELEMETRY)
_INT64_MAX = 2**63 - 1
_NOT_AVAILABLE = 2**32 - 1
"""NVML_VALUE_NOT_AVAILABLE in 32 bits, which drivers give without an error, as a clock, a power or a temperature."""
_MIG = "the GPU is split (MIG); it is known for each MIG instance only"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A value that could not be had, and why."""

    reason: str


def _load_nvml() -> Any:
    return importlib.import_module("pynvml")


class TelemetrySampler:
    """Samples the GPU that CUDA's device 0 is. `reasons` says why columns are null, `unavailable` why all are.

    `load` gives the NVML module; tests hand in their own.
    """

    def __init__(self, *, load: Callable[[], Any] = _load_nvml) -> None:
        self.reasons: dict[str, str] = {}
        self.unavailable: str | None = None
        self._nvml: Any = None
        self._handle: Any = None
        self._mig = False
        try:
            nvml = load()
        except Exception as error:  # noqa: BLE001 - a module may fail to load in any way; the run goes on
            self._give_up(f"the module pynvml (package nvidia-ml-py) cannot be imported: {error}")
            return
        try:
            nvml.nvmlInit()
            self._handle = first_handle(nvml)
        except Exception as error:  # noqa: BLE001 - also another package named pynvml, which has none of these names
            self._give_up(f"NVML cannot be used: {error}")
            return
        self._nvml = nvml
        self._mig = self._ask("mig", self._mig_mode) is True

    def sample(self, time_ns: int) -> tuple[int | None, ...]:
        """One row of the table `telemetry`, after its step: `ledger.add("telemetry", *sampler.sample(now))`."""
        values: dict[str, int | None] = {"time_ns": time_ns}
        if self._nvml is not None:
            values.update({name: self._ask(name, query) for name, query in self._queries().items()})
        return tuple(values.get(name) for name in _COLUMNS)

    def environment(self) -> dict[str, Value]:
        """What belongs into the fingerprint; `nvml` is ok or unavailable, then with the reason."""
        if self._nvml is None:
            return {"nvml": "unavailable", "nvml_reason": self.unavailable}
        nvml, handle = self._nvml, self._handle
        clock = nvml.NVML_CLOCK_SM
        asked: dict[str, Callable[[], Any]] = {
            "gpu_name": lambda: _text(nvml.nvmlDeviceGetName(handle)),
            "gpu_count": nvml.nvmlDeviceGetCount,
            "gpu_driver": lambda: _text(nvml.nvmlSystemGetDriverVersion()),
            "gpu_memory_bytes": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            "gpu_max_sm_clock_mhz": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, clock)),
        }
        known: dict[str, Value] = {name: self._ask(name, query) for name, query in asked.items()}
        return {"nvml": "ok", **known, "gpu_mig": self._mig}

    def processes(self) -> frozenset[int] | None:
        """Ids of the processes that compute on the device, as the driver counts them; None where it does not say."""
        if self._nvml is None:
            return None
        nvml, handle = self._nvml, self._handle
        running = self._ask("processes", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return None if running is None else frozenset(int(one.pid) for one in running)

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """(table, column, reason) for each column of `telemetry` that is null."""
        names = [name for name in _COLUMNS if name != "time_ns"]
        reasons = dict.fromkeys(names, self.unavailable) if self.unavailable else self.reasons
        return tuple(("telemetry", name, reason) for name in names if (reason := reasons.get(name)))

    def close(self) -> None:
        """Let NVML go."""
        if self._nvml is not None:
            self._ask("shutdown", self._nvml.nvmlShutdown)
            self._nvml = None

    def _give_up(self, reason: str) -> None:
        self.unavailable = " ".join(reason.split())

    def _queries(self) -> dict[str, Callable[[], Any]]:
        nvml, handle = self._nvml, self._handle
        return {
            "sm_clock_mhz": lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "mem_clock_mhz": lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            "power_mw": lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)),
            "temperature_c": lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            "throttle_reasons": lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
            "memory_used_bytes": self._memory_used,
            "gpu_utilization_pct": self._utilization,
        }

    def _memory_used(self) -> int | Unavailable:
        # For a split GPU the parent's figure is the sum of instances that other people may be using.
        return Unavailable(_MIG) if self._mig else int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)

    def _utilization(self) -> int | Unavailable:
        if self._mig:
            return Unavailable(_MIG)
        found = int(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        return found if found <= 100 else Unavailable(f"the driver gives {found} %, which is no figure")

    def _mig_mode(self) -> bool:
        current, _pending = self._nvml.nvmlDeviceGetMigMode(self._handle)
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _ask(self, name: str, query: Callable[[], Any]) -> Any:
        """The answer, or None with the reason kept. An older NVML module may lack the function or the constant.

        Also None: what is no figure ("N/A"), and a figure out of the table's int64, as drivers give for "not known".
        """
        try:
            answer = query()
            if isinstance(answer, int) and (not 0 <= answer <= _INT64_MAX or answer == _NOT_AVAILABLE):
                answer = Unavailable(f"the driver gives {answer}, which is no figure")
        except Exception as error:  # noqa: BLE001 - no failure of NVML may reach the run
            answer = Unavailable(" ".join(str(error).split()) or type(error).__name__)
        if isinstance(answer, Unavailable):
            self.reasons[name] = answer.reason
            return None
        return answer


def _text(value: str | bytes) -> str:
    """Names are bytes in older versions of the module."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
