"""Steps and series in words: the commit range, the size, how sure; and why a series says nothing."""

from __future__ import annotations

from ...analysis.gate.result import unit_of
from ...analysis.history.found import SeriesFound, State, Step
from ...analysis.history.limits import StepLimits
from ...analysis.history.series import Machine, Stored
from ..formatting import count, duration, percent, size
from ..gate.characters import readable, shortened
from ..gate.words import signed

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_COMMIT_SHOWN = 12
_NAME_SHOWN = 60
_LISTED = 6


def commit_name(stored: Stored) -> str:
    """A commit's first twelve characters where it is a hash, else its name; the file's place where it has none."""
    return short_name(stored.name)


def short_name(text: str) -> str:
    """A hash's first twelve characters; another name as it is, up to 60."""
    name = readable(text)
    is_hash = len(name) >= 20 and all(char in "0123456789abcdef" for char in name)
    return name[:_COMMIT_SHOWN] if is_hash else shortened(name, _NAME_SHOWN)


def range_name(step: Step) -> str:
    """"4f0c2e1..9ab3d07", last good to first bad."""
    return f"{commit_name(step.last_good)}..{commit_name(step.first_bad)}"


def amount(metric: str, value: float) -> str:
    """A value with its unit: times from their own unit."""
    unit = unit_of(metric)
    if unit in _NANOSECONDS:
        return duration(value * _NANOSECONDS[unit])
    return size(value) if unit == "bytes" else percent(value) if unit == "1" else count(value)


def step_words(found: SeriesFound, step: Step) -> str:
    """One sentence: what, by how much, where, how sure."""
    series = found.series
    change = "" if step.effect is None else f" ({signed(step.effect)})"
    sure = "counted exactly" if step.p is None else f"p = {step.p:.1g}"
    text = (
        f"{readable(series.point)}, {readable(series.metric)}: {direction(series.metric, step)} since"
        f" {range_name(step)}: {amount(series.metric, step.before)} to {amount(series.metric, step.after)}{change},"
        f" {sure}, {step.num_before} results before and {step.num_after} after."
    )
    if step.within_commit is not None:
        return f"{text} Both sides are {commit_name(step.first_bad)}: it was not the code."
    return f"{text} {_suspects(step)}"


def direction(metric: str, step: Step) -> str:
    """"slower" or "faster" of times, "more" or "less" of counts."""
    if unit_of(metric) in _NANOSECONDS:
        return "slower" if step.slower else "faster"
    return "more" if step.slower else "less"


def _suspects(step: Step) -> str:
    names = [short_name(name) for name in step.commits]
    if len(names) == 1:
        return f"Only {names[0]} was measured in the range."
    likely = f"most likely between {commit_name(step.likely_before)} and {commit_name(step.likely_after)}"
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    return f"Measured in the range: {listed}; {likely}."


def state_words(found: SeriesFound, limits: StepLimits) -> str:
    """What the series says, or why it says nothing."""
    if found.state is State.TOO_SHORT:
        return f"too short: {limits.min_results} results are needed, there are {found.measured}"
    if found.state is State.NOT_MEASURED:
        return "never measured"
    if found.state is State.NO_VARIATION:
        return "all results are the same to the last digit: a copied number, or too coarse a clock"
    if found.state is State.VARIES:
        return "changes from run to run, so that no step can be told"
    if found.state is State.NO_STEP:
        return "no step"
    return f"{len(found.steps)} step{'s' if len(found.steps) > 1 else ''}"


def machine_words(machine: Machine) -> str:
    """"gpu NVIDIA H200, driver 580.1, ..."."""
    return ", ".join(f"{readable(field)} {readable(str(value))}" for field, value in machine)
