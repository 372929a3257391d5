"""One step while it runs, and its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from .ledger import Ledger
from .notes import MANY_NOTES, Notes
from .nvtx_ranges import NvtxRanges

STEP_FIGURES = (
    "period_ns", "latency_ns", "host_busy_ns", "host_wait_ns", "num_reqs", "num_tokens", "padded_tokens", "padded_reqs",
    "kv_tokens_sum", "kv_tokens_max", "num_prefill", "num_decode", "num_new", "num_finished", "num_resumed",
    "num_preempted", "num_moved_rows", "batch_overlap", "num_syncs", "num_launches", "num_h2d",
    "drafted_reqs", "drafted_tokens", "accepted_tokens",
)
"""What `note` takes: columns of `steps` between the times and the flags, in the schema's order (a test compares)."""
_COLUMNS = frozenset(STEP_FIGURES)

Figure = int | float | bool | None


class StepKeeper(Protocol):
    """The probe, as its steps see it. A step that begins and ends writes what changes here itself: each call costs."""

    ledger: Ledger
    now: Callable[[], int]
    noted: Notes
    warmup: bool
    nvtx: NvtxRanges | None

    @property
    def phases(self) -> Callable[[str], AbstractContextManager[None]]:
        """Gives the phase of a name."""
        ...

    def make_way(self, number: int) -> int:
        """Before a step begins where one is open, where much was noted, or where its number does not rise: the number
        that it has.
        """
        ...

    def left_late(self, step: Any, kind: type[BaseException] | None) -> None:
        """A step was left that had ended before."""
        ...


class StepFigures:
    """The probe's StepScope; each step gets its own. What most steps never change stands in the class. How the
    attributes are kept says the step below it: `Step` in a dictionary, the one in C in its own way.

    held        its row waits for its tokens
    visible_ns  when they were there, if they were waited for after the step
    is_open     it has begun and not ended
    """

    if not TYPE_CHECKING:
        __slots__ = ()
    keeps_figures = True
    held = _late = False
    visible_ns: int | None = None
    _noted: dict[str, Figure] | None = None
    _later: list[tuple[Any, ...]] | None = None
    _keeper: StepKeeper
    number: int
    warmup: bool
    is_open: bool
    complete: bool
    start_ns: int
    end_ns: int

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

    def note_later(self, make: Callable[..., Mapping[str, Figure]], *values: Any) -> None:
        """See StepScope.note_later."""
        if self._later is None:
            self._later = []
        self._later.append((make, *values))

    def late(self) -> LateTokens:
        """Hold this step's row back until its tokens have come back (see `LateTokens`)."""
        self._late = self.held = True
        return LateTokens(self, self._keeper)

    def row(self) -> tuple[Any, ...]:
        """The row of the table `steps`.

        latency_ns is the step's own duration unless it was noted, or ends where late tokens were there; null for a
        step that never finished, and for one whose tokens never came back.
        """
        for make, *values in self._later or ():
            self.note(**make(*values))
        over_ns = self.visible_ns if self._late else self.end_ns if self.complete else None
        figures = {"latency_ns": None if over_ns is None else over_ns - self.start_ns, **(self._noted or {})}
        return (
            self.number, self.start_ns, self.end_ns, *map(figures.get, STEP_FIGURES), self.warmup, self.complete,
        )  # fmt: skip


class Step(StepFigures):
    """A step with its times; `hot_path.c` has the other one."""

    is_open = False

    def __init__(self, keeper: StepKeeper, number: int) -> None:
        self._keeper = keeper
        self.number = number
        self.warmup = keeper.warmup

    def __enter__(self) -> Step:
        keeper, noted = self._keeper, self._keeper.noted
        last = noted.last
        if (last is not None and (last.is_open or self.number <= last.number)) or len(noted) > MANY_NOTES:
            self.number = keeper.make_way(self.number)
        noted.last = self
        keeper.ledger.step = self.number
        noted.append(self)
        self.is_open = True
        self.start_ns = keeper.now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the step, unless that has been done; its row is made later, and so is the end of what is open in it."""
        if self.is_open:
            keeper = self._keeper
            self.end_ns = keeper.now()
            self.is_open, self.complete = False, kind is None
            keeper.noted.append(self)
            keeper.ledger.step = None
        else:
            self._keeper.left_late(self, kind)


class TracedStep(Step):
    """The same while a tool listens: also an NVTX range around it, which takes with it what was left open inside."""

    def __enter__(self) -> Step:
        self.number = self._keeper.make_way(self.number)
        nvtx = self._keeper.nvtx
        assert nvtx is not None
        self._depth = nvtx.depth
        nvtx.push("step")
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_open = self.is_open
        super().__exit__(kind, error, trace)
        if was_open:
            assert self._keeper.nvtx is not None
            self._keeper.nvtx.pop_to(self._depth)


class LateTokens:
    """Context manager around taking in a step's tokens, between two later steps or within one.

    The step's row waits for it, because latency ends where the tokens are visible. What is written between two steps
    belongs to the step that ended last, as a range there does: waits too, while a late step is taken in.
    """

    __slots__ = ("_keeper", "_outside", "_step")

    def __init__(self, step: StepFigures, keeper: StepKeeper) -> None:
        self._step = step
        self._keeper = keeper

    def __enter__(self) -> None:
        ledger = self._keeper.ledger
        self._outside = ledger.step is None
        if self._outside:
            last = self._keeper.noted.last
            ledger.step = None if last is None else last.number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._step.visible_ns = self._keeper.now()
        if self._outside:
            self._keeper.ledger.step = None
        self._step.held = False
