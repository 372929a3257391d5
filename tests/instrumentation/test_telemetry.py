"""Case 57: NVML that says "not supported", or is not there. A run never fails for it, and nothing becomes 0."""

from types import SimpleNamespace

import pytest
from stepscope.instrumentation.recording.registry import check_environment
from stepscope.instrumentation.recording.schema import TELEMETRY
from stepscope.instrumentation.telemetry import TelemetrySampler

MEMORY_USED = 1_079_263_232


class NVMLError(Exception):
    pass


def answers(value):
    def query(*_):
        if isinstance(value, Exception):
            raise value
        return value

    return query


def fake_nvml(**changes):
    """An H200 that answers everything; `changes` are answers, or errors to raise, by function name."""
    functions = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlSystemGetDriverVersion": b"570.86.15",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=2**37, used=MEMORY_USED, free=0),
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetClockInfo": 345,
        "nvmlDeviceGetPowerUsage": 75_000,
        "nvmlDeviceGetTemperature": 31,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
        "nvmlDeviceGetMigMode": [0, 0],
        **changes,
    }
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0, "NVML_DEVICE_MIG_ENABLE": 1}
    present = {name: answers(value) for name, value in functions.items() if value is not Ellipsis}
    return SimpleNamespace(NVMLError=NVMLError, **constants, **present)


def sample(nvml):
    sampler = TelemetrySampler(load=lambda: nvml)
    row = sampler.sample(5)
    return sampler, dict(zip([column.name for column in TELEMETRY], row, strict=True))


NOT_SUPPORTED = NVMLError("Not Supported")


def test_a_gpu_that_answers_everything():
    sampler, row = sample(fake_nvml())
    assert row == {
        "time_ns": 5, "sm_clock_mhz": 345, "mem_clock_mhz": 345, "power_mw": 75_000, "temperature_c": 31,
        "throttle_reasons": 0, "memory_used_bytes": MEMORY_USED, "gpu_utilization_pct": 0,
    }  # fmt: skip
    assert sampler.diagnostics() == ()
    environment = sampler.environment()
    assert environment == {
        "nvml": "ok", "gpu_name": "NVIDIA H200", "gpu_count": 1, "gpu_driver": "570.86.15", "gpu_mig": False,
        "gpu_memory_bytes": 2**37, "gpu_max_sm_clock_mhz": 1980,
    }  # fmt: skip
    check_environment(environment)


def test_wsl_keeps_the_memory_and_has_no_utilization():
    sampler, row = sample(
        fake_nvml(nvmlDeviceGetUtilizationRates=NOT_SUPPORTED, nvmlDeviceGetPowerUsage=NOT_SUPPORTED)
    )
    assert row["memory_used_bytes"] == MEMORY_USED
    assert row["gpu_utilization_pct"] is None
    assert row["power_mw"] is None
    assert ("telemetry", "gpu_utilization_pct", "Not Supported") in sampler.diagnostics()
    assert len(sampler.diagnostics()) == 2


def test_mig_has_no_figures_of_the_whole():
    sampler, row = sample(fake_nvml(nvmlDeviceGetMigMode=[1, 1], nvmlDeviceGetUtilizationRates=NOT_SUPPORTED))
    assert row["gpu_utilization_pct"] is None
    assert row["memory_used_bytes"] is None
    assert row["temperature_c"] == 31
    assert sampler.environment()["gpu_mig"] is True
    assert "MIG" in dict(entry[1:] for entry in sampler.diagnostics())["memory_used_bytes"]


@pytest.mark.parametrize(
    "changes",
    [
        {"nvmlInit": NVMLError("NVML Shared Library Not Found")},
        {"nvmlDeviceGetHandleByIndex": NVMLError("Invalid Argument")},
        {"nvmlInit": OSError("libnvidia-ml.so.1: cannot open\nshared object file")},
    ],
)
def test_a_container_without_nvml(changes):
    sampler = TelemetrySampler(load=lambda: fake_nvml(**changes))
    assert sampler.sample(5) == (5, *[None] * (len(TELEMETRY) - 1))
    environment = sampler.environment()
    assert environment["nvml"] == "unavailable"
    assert environment["nvml_reason"].startswith("NVML cannot be used: ")
    assert "\n" not in environment["nvml_reason"]
    check_environment(environment)
    assert {column for _, column, _ in sampler.diagnostics()} == {column.name for column in TELEMETRY} - {"time_ns"}
    sampler.close()


def test_no_module():
    def load():
        raise ImportError("No module named 'pynvml'")

    sampler = TelemetrySampler(load=load)
    assert sampler.environment()["nvml"] == "unavailable"
    assert "nvidia-ml-py" in sampler.environment()["nvml_reason"]
    assert sampler.sample(5)[1:] == (None,) * (len(TELEMETRY) - 1)


def test_an_old_module_lacks_a_function():
    sampler, row = sample(fake_nvml(nvmlDeviceGetCurrentClocksThrottleReasons=...))
    assert row["throttle_reasons"] is None
    assert row["power_mw"] == 75_000
    assert "nvmlDeviceGetCurrentClocksThrottleReasons" in sampler.diagnostics()[0][2]


def test_after_close_nothing_is_asked():
    sampler, _ = sample(fake_nvml())
    sampler.close()
    sampler.close()
    assert sampler.sample(6) == (6, *[None] * (len(TELEMETRY) - 1))


def test_on_this_machine():
    sampler = TelemetrySampler()
    assert sampler.sample(5)[0] == 5
    check_environment(sampler.environment())
    sampler.close()


@pytest.mark.parametrize("answer", ["N/A", "per MIG instance only", None, 2**64 - 1, -1, TypeError("ctypes")])
def test_an_answer_that_is_no_figure_is_null(answer):
    memory = answer if isinstance(answer, Exception) else SimpleNamespace(used=answer, total=answer)
    changes = {
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetPowerUsage": answer,
        "nvmlDeviceGetMigMode": answer,
    }
    sampler, row = sample(fake_nvml(**changes))
    assert (row["memory_used_bytes"], row["power_mw"], row["temperature_c"]) == (None, None, 31)
    assert {column for _, column, _ in sampler.diagnostics()} == {"memory_used_bytes", "power_mw"}
    assert sampler.environment()["gpu_memory_bytes"] is None


def test_another_package_of_the_same_name_is_an_absent_one():
    sampler, row = sample(SimpleNamespace())
    assert set(row.values()) == {None, 5}
    assert sampler.environment()["nvml"] == "unavailable"

    def broken():
        raise RuntimeError("two packages\nfight for the name pynvml")

    assert "two packages fight" in TelemetrySampler(load=broken).unavailable


def test_what_stands_for_not_known_is_no_figure():
    # GIVEN a driver that fills in NVML_VALUE_NOT_AVAILABLE in place of an error, and a share above all there is
    unknown = 2**32 - 1
    sampler, row = sample(fake_nvml(
        nvmlDeviceGetPowerUsage=unknown, nvmlDeviceGetTemperature=unknown, nvmlDeviceGetClockInfo=unknown,
        nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=101, memory=0),
    ))  # fmt: skip
    for name in ("power_mw", "temperature_c", "sm_clock_mhz", "mem_clock_mhz", "gpu_utilization_pct"):
        assert row[name] is None
        assert "no figure" in sampler.reasons[name]
    assert row["memory_used_bytes"] == MEMORY_USED
