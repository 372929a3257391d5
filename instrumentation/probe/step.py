"""One step while it runs, and its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from .ledger import Ledger

STEP_FIGURES = (
    "period_ns", "latency_ns", "host_busy_ns", "host_wait_ns", "num_reqs", "num_tokens", "padded_tokens", "padded_reqs",
    "kv_tokens_sum", "kv_tokens_max", "num_prefill", "num_decode", "num_new", "num_finished", "num_resumed",
    "num_preempted", "num_moved_rows", "batch_overlap", "num_syncs", "num_launches", "num_h2d",
)
"""What `note` takes: columns of `steps` between the times and the flags, in the schema's order (a test compares)."""
_COLUMNS = frozenset(STEP_FIGURES)

Figure = int | float | bool | None


class StepKeeper(Protocol):
    """The probe, as its steps see it."""

    ledger: Ledger
    now: Callable[[], int]
    last_number: int | None
    warmup: bool

    @property
    def phases(self) -> Callable[[str], AbstractContextManager[None]]:
        """Gives the phase of a name."""
        ...

    def open_step(self, step: Step) -> None:
        """Begin `step`."""
        ...

    def close_step(self, step: Step, *, complete: bool) -> None:
        """End it."""
        ...


class Step:
    """The probe's StepScope; each step gets its own. What most steps never change stands in the class.

    held        its row waits for its tokens
    visible_ns  when they were there, if they were waited for after the step
    is_open     it has begun and not ended; the probe sets this, start, end, and whether it is complete
    """

    keeps_figures = True
    held = is_open = _late = False
    visible_ns: int | None = None
    start_ns: int
    end_ns: int
    complete: bool
    _noted: dict[str, Figure] | None = None
    _later: tuple[Callable[[], Mapping[str, Figure]], ...] = ()

    def __init__(self, keeper: StepKeeper, number: int) -> None:
        self._keeper = keeper
        self.number = number
        self.warmup = keeper.warmup

    def phase(self, name: str, /) -> AbstractContextManager[None]:
        """The phase `name`; the object is shared by all steps."""
        return self._keeper.phases(name)

    def note(self, **figures: Figure) -> None:
        """Figures for the step's row; a name that `steps` does not have is our own mistake."""
        assert _COLUMNS.issuperset(figures), f"no such column in steps, one of {sorted(figures)}"
        if self._noted is None:
            self._noted = figures
        else:
            self._noted.update(figures)

    def note_later(self, make: Callable[[], Mapping[str, Figure]]) -> None:
        """See StepScope.note_later."""
        self._later = (*self._later, make)

    def late(self) -> LateTokens:
        """Hold this step's row back until its tokens have come back (see `LateTokens`)."""
        self._late = self.held = True
        return LateTokens(self, self._keeper)

    def __enter__(self) -> Step:
        self._keeper.open_step(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_open:
            self._keeper.close_step(self, complete=kind is None)

    def row(self) -> tuple[Any, ...]:
        """The row of the table `steps`.

        latency_ns is the step's own duration unless it was noted, or ends where late tokens were there; null for a
        step that never finished, and for one whose tokens never came back.
        """
        for make in self._later:
            self.note(**make())
        over_ns = self.visible_ns if self._late else self.end_ns if self.complete else None
        figures = {"latency_ns": None if over_ns is None else over_ns - self.start_ns, **(self._noted or {})}
        return (
            self.number, self.start_ns, self.end_ns, *map(figures.get, STEP_FIGURES), self.warmup, self.complete,
        )  # fmt: skip


class LateTokens:
    """Context manager around taking in a step's tokens, between two later steps or within one.

    The step's row waits for it, because latency ends where the tokens are visible. What is written between two steps
    belongs to the step that ended last, as a range there does: waits too, while a late step is taken in.
    """

    __slots__ = ("_keeper", "_outside", "_step")

    def __init__(self, step: Step, keeper: StepKeeper) -> None:
        self._step = step
        self._keeper = keeper

    def __enter__(self) -> None:
        ledger = self._keeper.ledger
        self._outside = ledger.step is None
        if self._outside:
            ledger.step = self._keeper.last_number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._step.visible_ns = self._keeper.now()
        if self._outside:
            self._keeper.ledger.step = None
        self._step.held = False
