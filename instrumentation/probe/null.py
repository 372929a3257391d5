"""The probe that is not there. Every call hands out an object made in advance.

`with` finds the static methods below without making bound methods, which would be half of what a `with` around nothing
costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .api import F
from .made import Made


class NullContext:
    """A context manager that does nothing."""

    __slots__ = ()

    @staticmethod
    def __enter__(owner: object = None) -> None:
        """`owner` is what an ExitStack passes; so below."""

    @staticmethod
    def __exit__(kind: object, error: object, trace: object, owner: object = None) -> None:
        pass


NULL_CONTEXT = NullContext()
_nulls = Made(lambda name: NULL_CONTEXT)


class NullScope:
    """A step that records nothing; also what `Probe.scope` gives outside steps."""

    __slots__ = ()
    keeps_figures = False
    phase = _nulls.__getitem__
    """A phase that nobody times."""

    def note(self, **figures: int | float | bool | None) -> None:
        """Figures that nobody keeps."""

    def note_later(self, make: Callable[..., Mapping[str, int | float | bool | None]], *values: Any) -> None:
        """Figures that nobody makes."""

    def late(self) -> NullContext:
        """A hand-off that nobody times."""
        return NULL_CONTEXT


NULL_SCOPE = NullScope()


class _NullStep:
    __slots__ = ()

    @staticmethod
    def __enter__(owner: object = None) -> NullScope:
        return NULL_SCOPE

    @staticmethod
    def __exit__(kind: object, error: object, trace: object, owner: object = None) -> None:
        pass


_NULL_STEP = _NullStep()


class NullProbe:
    """Stands in for `Probe` when nothing is to be recorded."""

    def __init__(self) -> None:
        self.warmup = False

    def step(self, number: int) -> _NullStep:
        """A step that records nothing."""
        return _NULL_STEP

    def range(self, name: str) -> NullContext:
        """A range that nobody times."""
        return NULL_CONTEXT

    def timed(self, name: str, function: F) -> F:
        """The function itself."""
        return function

    timed_phase = timed

    @property
    def scope(self) -> NullScope:
        """The no-op scope."""
        return NULL_SCOPE

    def resolve_pending(self) -> None:
        """Nothing is pending."""

    def finish(self) -> None:
        """Nothing is held back."""

    def diagnostics(self) -> tuple[tuple[str, str, str], ...]:
        """Nothing was recorded, so nothing is missing."""
        return ()
