"""The Recording: what was measured, as tables with named, typed columns.

Names are looked up lazily: `schema` and `meta` are wanted where pandas must not be imported (`import stepscope`,
`perf --help`), `Recording` and `RecordingWriter` need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .meta import ClockInfo, Diagnostic, ProcessKeys, RecordingMeta, SweepKeys
    from .reader import Recording
    from .writer import RecordingWriter

__all__ = [
    "ClockInfo", "Diagnostic", "ProcessKeys", "Recording", "RecordingMeta", "RecordingWriter", "SweepKeys",
]

_MODULES = {"Recording": "reader", "RecordingWriter": "writer"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES.get(name, 'meta')}", __name__), name)
