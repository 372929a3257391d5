"""Who looks on while sizes are found: hears what is done and how far it is, and may ask for an early end."""

from __future__ import annotations

from typing import Protocol


class SizesWatch(Protocol):
    """One piece of work at a time: `begin`, `to` as often as one likes, `end`."""

    @property
    def interrupted(self) -> bool:
        """Whether to stop and say what is known so far."""
        ...

    def note(self, line: str) -> None:
        """What comes next, and about how long it takes."""
        ...

    def begin(self, what: str, total: int) -> None:
        """`total` of `what` (a plural) are to be done."""
        ...

    def to(self, done: int) -> None:
        """So many are."""
        ...

    def end(self) -> None:
        """The piece is over, done or not."""
        ...


class Unwatched:
    """Nobody looks on."""

    interrupted = False

    def note(self, line: str) -> None:
        """See SizesWatch."""

    def begin(self, what: str, total: int) -> None:
        """See SizesWatch."""

    def to(self, done: int) -> None:
        """See SizesWatch."""

    def end(self) -> None:
        """See SizesWatch."""


UNWATCHED = Unwatched()
