"""What was found in a series of results: its steps (changes of level) with the commits around them, its noise, or why
nothing can be said of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .series import Series, Stored


class State(Enum):
    """The value is the code that files carry."""

    STEPS = "steps"
    NO_STEP = "no_step"
    TOO_SHORT = "too_short"
    NO_VARIATION = "no_variation"
    VARIES = "varies_from_run_to_run"
    NOT_MEASURED = "not_measured"

    @property
    def decided(self) -> bool:
        """Whether the series was long and good enough to be looked through."""
        return self in (State.STEPS, State.NO_STEP)


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level. The step lies after `last_good` and not after `first_bad`, with 95 %.

    likely_before, likely_after   the neighbours that it most likely lies between
    commits    what may have made it: the names of the results after `last_good` up to `first_bad`
    before, after   medians of both levels, in the metric's unit; `effect` their ratio less 1, None from a level of 0
    p          None of a count, which is exact
    """

    last_good: Stored
    first_bad: Stored
    likely_before: Stored
    likely_after: Stored
    commits: tuple[str, ...]
    before: float
    after: float
    effect: float | None
    p: float | None
    num_before: int
    num_after: int

    @property
    def slower(self) -> bool:
        """Whether it got worse: of all that is judged less is better."""
        return self.after > self.before

    @property
    def within_commit(self) -> str | None:
        """The commit on both sides: then it was not the code."""
        one = self.last_good.commit
        return one if one is not None and one == self.first_bad.commit else None


@dataclass(frozen=True, slots=True)
class Newest:
    """The last results differ surely from those before, but are too few for a step."""

    count: int
    effect: float
    first: Stored


@dataclass(frozen=True, slots=True)
class SeriesFound:
    """`series` and what was found in it.

    measured    results with a usable value; `holes` those without one (failed, null, not a number, a time of 0)
    noise       standard deviation within levels, a fraction; None where unknown, and of counts
    likeness    autocorrelation: of neighbouring results on the same level
    detectable  least step that `min_segment` new results would show half of the time
    level       median of the results since the last step, in the metric's unit
    """

    series: Series
    state: State
    measured: int
    holes: int
    steps: tuple[Step, ...] = ()
    noise: float | None = None
    likeness: float | None = None
    detectable: float | None = None
    level: float | None = None
    newest: Newest | None = None
