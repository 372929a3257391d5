"""The names of a captured graph's kernels, asked of the CUDA driver: no profiler, no replay.

torch keeps the `cudaGraph_t` of `CUDAGraph(keep_graph=True)`; the driver lists its nodes in the order of their capture.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

_NODE_KINDS = {1: "memcpy", 2: "memset", 3: "host"}
_KERNEL_NODE = 0


class _KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h (CUDA 12)."""

    _fields_ = (
        ("func", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("kernel_params", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


@cache
def _driver() -> Any | None:
    """libcuda, None where it is missing or older than the calls that name kernels (CUDA 12.3)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name in ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2", "cuFuncGetName"):
            getattr(driver, name)
    except (OSError, AttributeError):
        return None
    return driver


def graph_kernels(graph: torch.cuda.CUDAGraph) -> tuple[str, ...] | None:
    """Names of the graph's nodes in order; None where the driver does not say. `graph`: made with keep_graph=True."""
    driver = _driver()
    if driver is None:
        return None
    handle = ctypes.c_void_p(int(graph.raw_cuda_graph()))
    count = ctypes.c_size_t()
    if driver.cuGraphGetNodes(handle, None, ctypes.byref(count)):
        return None
    nodes = (ctypes.c_void_p * count.value)()
    if driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)):
        return None
    names = [_name(driver, ctypes.c_void_p(node)) for node in nodes]
    return tuple(name for name in names if name is not None) if None not in names else None


def _name(driver: Any, node: ctypes.c_void_p) -> str | None:
    kind = ctypes.c_int()
    if driver.cuGraphNodeGetType(node, ctypes.byref(kind)):
        return None
    if kind.value != _KERNEL_NODE:
        return _NODE_KINDS.get(kind.value, f"node {kind.value}")
    params = _KernelNodeParams()
    if driver.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(params)):
        return None
    name = ctypes.c_char_p()
    ask, handle = driver.cuFuncGetName, params.func
    if not handle:
        ask, handle = driver.cuKernelGetName, params.kern
    if ask(ctypes.byref(name), ctypes.c_void_p(handle)) or name.value is None:
        return None
    return name.value.decode()


def kernel_hash(names: Sequence[str] | None) -> str | None:
    """Twelve hex digits that change when other kernels, or another order of them, are chosen."""
    return None if names is None else hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
