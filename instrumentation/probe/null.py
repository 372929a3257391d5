"""The probe that is not there. Every call hands out an object made in advance."""

from __future__ import annotations

from types import TracebackType


class NullContext:
    """A context manager that does nothing."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


NULL_CONTEXT = NullContext()


class NullScope:
    """A step that records nothing; also what `Probe.scope` gives outside steps."""

    __slots__ = ()
    keeps_figures = False

    def phase(self, name: str) -> NullContext:
        """A phase that nobody times."""
        return NULL_CONTEXT

    def note(self, **figures: int | float | bool | None) -> None:
        """Figures that nobody keeps."""

    def late(self) -> NullContext:
        """A hand-off that nobody times."""
        return NULL_CONTEXT


NULL_SCOPE = NullScope()


class _NullStep:
    __slots__ = ()

    def __enter__(self) -> NullScope:
        return NULL_SCOPE

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


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
