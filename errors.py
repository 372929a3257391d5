"""Errors that end a command, and the exit code that each one means.

    StepscopeError
     ├── UsageError          2  wrong or unusable input: names the file, the field and the mend
     ├── MeasurementError    3  nothing measurable, or some points failed
     ├── Incomparable        5  the two sides must not be compared
     └── BrokenInvariant     1  a named check of the runner failed

4, inconclusive, is a verdict and no error: the gate says it with its result.
"""

from __future__ import annotations


class StepscopeError(Exception):
    """Base of all errors that a user can meet. `exit_code` is what the command ends with."""

    exit_code = 70


class UsageError(StepscopeError):
    """Wrong or unusable input. The message is one line: where, which field, how to mend it."""

    exit_code = 2


class MeasurementError(StepscopeError):
    """A measurement could not be made."""

    exit_code = 3


class Incomparable(StepscopeError):
    """The two sides differ in something that forbids a comparison."""

    exit_code = 5


class BrokenInvariant(StepscopeError):
    """A named invariant of the runner does not hold."""

    exit_code = 1

    def __init__(self, name: str, step: int, detail: str) -> None:
        super().__init__(f"invariant {name} broken in step {step}: {detail}")
        self.name = name
        self.step = step
        self.detail = detail
