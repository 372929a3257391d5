"""NVTX push/pop ranges in the domain `stepscope`, or nothing where no tool listens.

The value that `push_range` returns is never looked at: under some tools it is -1 although the range was opened, and
code that believes it never pops.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

DOMAIN = "stepscope"
NvtxMode = Literal["auto", "on", "off"]
_LISTENER: ContextVar[Any] = ContextVar("stepscope_range_listener", default=None)


class NvtxRanges:
    """Pushes and pops by name; each name is registered with the tool once."""

    def __init__(self, domain: Any) -> None:
        self._push = domain.push_range
        self._pop = domain.pop_range
        self._register = domain.get_event_attributes
        self._attributes: dict[str, Any] = {}
        self._open: list[str] = []

    @property
    def depth(self) -> int:
        """Ranges that are open now."""
        return len(self._open)

    def push(self, name: str) -> None:
        """Open a range inside whatever is open."""
        attributes = self._attributes.get(name)
        if attributes is None:
            attributes = self._attributes[name] = self._register(message=name)
        self._open.append(name)
        self._push(attributes)

    def leave(self, name: str) -> None:
        """Close the range `name`; nothing when it was closed with its step. NVTX pops the innermost, whatever its name,
        so of ends that cross only the number is right.
        """
        opened = self._open
        for at in range(len(opened) - 1, -1, -1):
            if opened[at] == name:
                del opened[at]
                self._pop()
                return

    def pop_to(self, depth: int) -> None:
        """Close what was opened above `depth`."""
        while len(self._open) > depth:
            self._open.pop()
            self._pop()


@contextmanager
def listening(domain: Any) -> Iterator[None]:
    """Inside the block, ranges of mode `auto` go to `domain` instead of NVTX: to a profiler that does not see NVTX.

    It has the three methods of an NVTX domain that `NvtxRanges` calls.
    """
    token = _LISTENER.set(domain)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def open_ranges(mode: NvtxMode, module: Any = None) -> NvtxRanges | None:
    """The ranges for `mode`, or None when there is nothing to write to.

    `auto` gives the ranges of whoever is `listening`; else None without the nvtx package and when no tool is attached
    to the process (the package then hands out a domain that registers nothing); `on` writes in any case, which a test
    with its own `module` wants.
    """
    if mode == "off":
        return None
    if mode == "auto" and _LISTENER.get() is not None:
        return NvtxRanges(_LISTENER.get())
    if module is None:
        try:
            module = importlib.import_module("nvtx")
        except ImportError:
            return None
    domain = module.get_domain(DOMAIN)
    if mode == "auto" and domain.get_event_attributes(message=DOMAIN) is None:
        return None
    return NvtxRanges(domain)
