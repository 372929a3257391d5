"""Objects that are made once for each name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

V = TypeVar("V")


class Made(dict[str, V]):
    """`made[name]` makes the object at the first request. Its `__getitem__`, kept as a function, costs no frame."""

    def __init__(self, make: Callable[[str], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> V:
        made = self[name] = self._make(name)
        return made
