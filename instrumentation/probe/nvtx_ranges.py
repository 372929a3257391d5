"""NVTX push/pop ranges in the domain `stepscope`, or nothing where no tool listens.

The value that `push_range` returns is never looked at: under some tools it is -1 although the range was opened, and
code that believes it never pops.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

DOMAIN = "stepscope"
NvtxMode = Literal["auto", "on", "off"]


class NvtxRanges:
    """Pushes and pops by name; each name is registered with the tool once. `depth` is what is open now."""

    def __init__(self, domain: Any) -> None:
        self.depth = 0
        self._push = domain.push_range
        self._pop = domain.pop_range
        self._register = domain.get_event_attributes
        self._attributes: dict[str, Any] = {}

    def push(self, name: str) -> None:
        """Open a range inside whatever is open."""
        attributes = self._attributes.get(name)
        if attributes is None:
            attributes = self._attributes[name] = self._register(message=name)
        self.depth += 1
        self._push(attributes)

    def pop(self) -> None:
        """Close the innermost range; nothing when none is open."""
        if self.depth:
            self.depth -= 1
            self._pop()


def open_ranges(mode: NvtxMode, module: Any = None) -> NvtxRanges | None:
    """The ranges for `mode`, or None when there is nothing to write to.

    `auto` gives None without the nvtx package and when no tool is attached to the process (the package then hands out
    a domain that registers nothing); `on` writes in any case, which a test with its own `module` wants.
    """
    if mode == "off":
        return None
    if module is None:
        try:
            module = importlib.import_module("nvtx")
        except ImportError:
            return None
    domain = module.get_domain(DOMAIN)
    if mode == "auto" and domain.get_event_attributes(message=DOMAIN) is None:
        return None
    return NvtxRanges(domain)
