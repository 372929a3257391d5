"""The eight places of a step at which somebody may look: the article's order of breakpoints, by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, get_args

PointName = Literal[
    "update_states",
    "add_request",
    "condense",
    "cumsum",
    "gather",
    "slot_mapping",
    "attention_metadata",
    "logits",
]
POINT_NAMES: tuple[PointName, ...] = get_args(PointName)

Observer = Callable[[PointName, dict[str, object]], None]
"""Called with the point's name and its facts. Arrays are live views: copy what is to be kept."""


class ProbePoints:
    """Where the stages of a step report. Without an observer a stage pays one attribute test.

    `paused` is the device's: a virtual host clock stands still while the observer looks.
    """

    def __init__(self, paused: Callable[[], AbstractContextManager[None]]) -> None:
        self._paused = paused
        self._observer: Observer | None = None
        self.active = False

    def observe(self, observer: Observer | None) -> None:
        """Install the observer, or take it away with None."""
        self._observer = observer
        self.active = observer is not None

    def reach(self, name: PointName, **facts: object) -> None:
        """Tell the observer; call it only when `active`, so that nobody builds facts for nothing."""
        if self._observer is not None:
            with self._paused():
                self._observer(name, facts)
