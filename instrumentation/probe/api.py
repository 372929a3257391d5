"""What measured code calls. The real probe and the no-op probe stand behind these two protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

F = TypeVar("F", bound=Callable[..., Any])


class LateStep(Protocol):
    """A step whose tokens come back after its end: a context manager around taking them in.

    What is written inside belongs to the step that ended last, and at its end the step's tokens are visible.
    """

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class StepScope(Protocol):
    """One step while it runs. `keeps_figures` False: nobody will read what is noted, so nobody need compute it."""

    keeps_figures: bool

    def phase(self, name: str, /) -> AbstractContextManager[None]:
        """A phase: preprocess, forward or sample. Phases do not nest."""
        ...

    def note(self, **figures: int | float | bool | None) -> None:
        """Figures of the step's row, by column name of the table `steps`."""
        ...

    def note_later(self, make: Callable[..., Mapping[str, int | float | bool | None]], *values: Any) -> None:
        """The same, made by `make(*values)` when the row is: from values that will not have changed by then."""
        ...

    def late(self) -> LateStep:
        """Hold the step's row back until the tokens have come back: its latency ends there, not with the step."""
        ...


class ProbeLike(Protocol):
    """The probe that a runner holds. Every call is free of synchronisation and balanced when an exception passes.

    A stage that is a function is best timed as one, with `timed`, in the constructor of who calls it: that costs half
    of a `with`, and nothing where nobody times. An object that times a method of its own gives the function of its
    class, and itself when it calls: with a bound method it would refer to itself, and its memory would wait for the
    garbage collector. What `range` gives is made once for each name and may be kept.
    """

    def step(self, number: int) -> AbstractContextManager[StepScope]:
        """Open a step. On an exception its row is written with complete = False and the exception goes on."""
        ...

    def range(self, name: str) -> AbstractContextManager[None]:
        """A sub-range of whatever is open, also between steps (`schedule`, `update_from_output`)."""
        ...

    def timed(self, name: str, function: F) -> F:
        """A function that does the same, and each call of which is a sub-range; called as the function itself is."""
        ...

    def timed_phase(self, name: str, function: F) -> F:
        """The same for a phase of the step that is open when it is called."""
        ...

    @property
    def scope(self) -> StepScope:
        """The open step, for code that only has the probe; a no-op scope outside steps."""
        ...


class DeviceMarks(Protocol):
    """Timing events at phase borders; a device offers this. What a mark is, only the device knows."""

    def mark(self) -> Any:
        """Record a timing event on the compute stream; None where there is no device time."""
        ...

    def resolve_mark(self, mark: Any, asked_ns: int) -> tuple[int, int] | None:
        """(time_ns, err_ns), or None while unknown. `asked_ns` is the host time beside which the mark was taken: a mark
        that stands in for others, because nothing was enqueued since, does not lie before it.
        """
        ...


@runtime_checkable
class PatientMarks(DeviceMarks, Protocol):
    """What a device may offer beside DeviceMarks: a time for work that can wait."""

    def while_waiting(self, job: Callable[[int], int]) -> None:
        """Have `job(limit)` called whenever the host waits for the device anyway; it returns how much it did."""
        ...
