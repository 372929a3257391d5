"""Captures that others made become Recordings: Nsight Systems exports and PyTorch profiler (Kineto) traces.

    capture = read_capture(Path("trace.json.gz"))      # what kind of file it is, its content says
    capture.save(Path("recording"))                    # or capture.recording()

Both readers give a `Trace` (`trace.py`): plain columns. Everything after it is shared: calls are tied to the device
work that they launched, to steps and to phases, and written as the tables of a Recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capture import Capture, CaptureOptions
    from .reading import read_capture

__all__ = ["Capture", "CaptureOptions", "read_capture"]

_MODULES = {"Capture": "capture", "CaptureOptions": "capture", "read_capture": "reading"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
