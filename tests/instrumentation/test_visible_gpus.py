"""Which GPUs a process may use: CUDA_VISIBLE_DEVICES against an NVML that has two whole GPUs and a split one."""

from types import SimpleNamespace

import pytest
from stepscope.instrumentation.telemetry import TelemetrySampler
from stepscope.instrumentation.visible import Gpu, NoSuchGpuError, first_handle, host_gpus, visible_names

UUIDS = {"gpu0": "GPU-aaaa-1", "gpu1": "GPU-bbbb-2", "gpu2": b"GPU-cccc-3", "part0": "MIG-1", "part1": "MIG-2"}
PARTS = {("gpu2", 0): "part0", ("gpu2", 3): "part1"}


def nvml(count=3):
    def by_index(index):
        if index >= count:
            raise LookupError("Invalid Argument")
        return f"gpu{index}"

    def parent(handle):
        if not handle.startswith("part"):
            raise LookupError("Invalid Argument")
        return "gpu2"

    return SimpleNamespace(
        NVML_DEVICE_MIG_ENABLE=1,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=by_index,
        nvmlDeviceGetUUID=lambda handle: UUIDS[handle],
        nvmlDeviceGetHandleByUUID=lambda uuid: {"MIG-1": "part0", "MIG-2": "part1"}[uuid],
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle=parent,
        nvmlDeviceGetMigMode=lambda handle: (int(handle == "gpu2"), 0),
        nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=lambda handle, index: PARTS[handle, index],
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, None),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2,0", ("2", "0")),
        ("1, GPU-bb,-1,0", ("1", "GPU-bb")),  # CUDA stops at the first that is none
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(text, names):
    assert visible_names({} if text is None else {"CUDA_VISIBLE_DEVICES": text}) == names


def test_every_gpu_of_the_host_by_uuid_and_a_split_one_by_its_instances():
    found = host_gpus(nvml(), {})
    assert [gpu.visible for gpu in found] == ["GPU-aaaa-1", "GPU-bbbb-2", "MIG-1", "MIG-2"]
    assert [gpu.uuid for gpu in found] == ["GPU-aaaa-1", "GPU-bbbb-2", "MIG-1", "MIG-2"]


def test_what_the_variable_leaves_is_handed_on_in_its_own_words():
    found = host_gpus(nvml(), {"CUDA_VISIBLE_DEVICES": "1,GPU-aa,MIG-2"})
    assert found == (Gpu("1", "GPU-bbbb-2"), Gpu("GPU-aa", "GPU-aaaa-1"), Gpu("MIG-2", "MIG-2"))


def test_no_gpu_is_visible():
    assert host_gpus(nvml(), {"CUDA_VISIBLE_DEVICES": ""}) == ()
    with pytest.raises(NoSuchGpuError, match="hides every GPU"):
        first_handle(nvml(), {"CUDA_VISIBLE_DEVICES": "-1"})


def test_a_gpu_of_another_host():
    with pytest.raises(NoSuchGpuError, match="names GPU-zz, which this host has not"):
        host_gpus(nvml(), {"CUDA_VISIBLE_DEVICES": "GPU-zz"})


@pytest.mark.parametrize(
    ("visible", "handle"), [(None, "gpu0"), ("1", "gpu1"), ("GPU-bbbb", "gpu1"), ("MIG-2", "gpu2")]
)
def test_telemetry_is_that_of_the_process_own_gpu(monkeypatch, visible, handle):
    """GIVEN a worker whose GPU is not the host's first THEN the clocks in its recording are its own GPU's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    sampler = TelemetrySampler(load=nvml)
    assert sampler.unavailable is None
    assert sampler._handle == handle


def test_telemetry_of_a_process_without_a_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert TelemetrySampler(load=nvml).unavailable == "NVML cannot be used: CUDA_VISIBLE_DEVICES hides every GPU"
