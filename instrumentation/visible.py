"""Which GPUs of this host a process may use: CUDA_VISIBLE_DEVICES, in the words of NVML, which does not read it.

Numbers are taken as NVML's. CUDA numbers GPUs in the same order where they are equal, or with
CUDA_DEVICE_ORDER=PCI_BUS_ID; on a host with different GPUs name them by UUID.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or one instance of a split one (MIG).

    visible  what CUDA_VISIBLE_DEVICES has to be for a process that may use this one alone
    uuid     its name in the whole world
    """

    visible: str
    uuid: str


class NoSuchGpuError(Exception):
    """CUDA_VISIBLE_DEVICES names what is not there, or nothing."""


def visible_names(environ: Mapping[str, str] = os.environ) -> tuple[str, ...] | None:
    """Numbers and UUIDs in the variable's order, up to the first that is none, as CUDA reads it; None: all GPUs."""
    text = environ.get(VARIABLE)
    if text is None:
        return None
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if not (name.isdigit() or name.startswith(("GPU-", "MIG-"))):
            break
        names.append(name)
    return tuple(names)


def first_handle(nvml: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """NVML's handle of CUDA's device 0; of an instance (MIG) its parent's. Raises NoSuchGpuError, or what NVML does."""
    names = visible_names(environ)
    if names is None:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    if not names:
        raise NoSuchGpuError(f"{VARIABLE} hides every GPU")
    return _parent(nvml, _handle(nvml, names[0]))


def host_gpus(nvml: Any, environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """The GPUs that this process may use; a split one gives its instances. Raises NoSuchGpuError, or what NVML does."""
    names = visible_names(environ)
    if names is not None:
        return tuple(Gpu(name, _text(nvml.nvmlDeviceGetUUID(_handle(nvml, name)))) for name in names)
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    uuids = [_text(nvml.nvmlDeviceGetUUID(part)) for handle in handles for part in _parts(nvml, handle)]
    return tuple(Gpu(uuid, uuid) for uuid in uuids)


def _handle(nvml: Any, name: str) -> Any:
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    if name.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(name)
    for index in range(nvml.nvmlDeviceGetCount()):  # CUDA takes the beginning of a UUID too
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(name):
            return handle
    raise NoSuchGpuError(f"{VARIABLE} names {name}, which this host has not")


def _parent(nvml: Any, handle: Any) -> Any:
    """The GPU that `handle` is an instance of, else `handle`: clocks and power are the whole GPU's."""
    try:
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    except Exception:  # noqa: BLE001 - it is no instance, or the module knows of none
        return handle


def _parts(nvml: Any, handle: Any) -> list[Any]:
    """The instances of a split GPU, else the GPU itself."""
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
        if current != nvml.NVML_DEVICE_MIG_ENABLE:
            return [handle]
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except Exception:  # noqa: BLE001 - GPUs that cannot be split say so by an error
        return [handle]
    found = []
    for index in range(most):
        try:
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except Exception:  # noqa: BLE001 - an instance that was not made
            continue
    return found


def _text(value: str | bytes) -> str:
    """Names are bytes in older versions of the module."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
