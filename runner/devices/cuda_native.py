"""Lanes, stamps and marks in C (`instrumentation/probe/stamp_lane.h`), where one asks for them."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch

from ...instrumentation.probe.native import native_events
from .cuda_lanes import Pool, PythonLane, StampLane, Timeline

LIBRARY = "libcuda.so.1"


@cache
def driver_record() -> int:
    """Address of the driver's cuEventRecord, in which torch's own call ends; 0 where it does not: torch for other GPUs
    has events that NVIDIA's driver, if it is there too, does not know.
    """
    if torch.version.cuda is None:
        return 0
    try:
        library = ctypes.CDLL(LIBRARY)
        return ctypes.cast(library.cuEventRecord, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def make_pool(new_event: Callable[[], Any]) -> Pool:
    """An empty pool; `new_event` is called when somebody records and it is dry."""
    module = native_events()
    return deque() if module is None else cast(Pool, module.EventPool(new_event, driver_record()))


def make_lane(stream: torch.cuda.Stream, timeline: Timeline, name: str) -> StampLane:
    """A lane on `timeline`, in C if its pool is."""
    module = native_events()
    if module is None or not isinstance(timeline.pool, module.EventPool):
        return PythonLane(stream, timeline, name)
    handle = getattr(stream, "cuda_stream", 0)  # 0 also for the default stream: torch records there
    return cast(StampLane, _lane_type(module)(stream, timeline, name, timeline.pool, deque(), handle))


@cache
def _lane_type(module: Any) -> Any:
    return type("NativeLane", (module.Lane, StampLane), {"__slots__": (), "__doc__": StampLane.__doc__})
