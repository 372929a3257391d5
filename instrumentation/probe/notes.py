"""The list that is written on the hot path; what stands in it says `borders`."""

from __future__ import annotations

from typing import Any, Protocol

MANY_NOTES = 1 << 19
"""Notes after which rows are made at the beginning of a step, where neither a reader nor a wait has had them made."""


class Notes(Protocol):
    """Notes in the order of happening. Whoever notes binds `append`, so it stays the same object.

    last  the step that began last
    """

    last: Any

    def append(self, note: Any, /) -> None:
        """Note it."""
        ...

    def take(self) -> list[Any]:
        """Hand over all notes so far, and start empty."""
        ...

    def __len__(self) -> int: ...


class NoteList(list[Any]):
    """Notes in Python; `hot_path.c` has the other ones."""

    last: Any = None

    def take(self) -> list[Any]:
        """See Notes."""
        taken = self[:]
        self.clear()
        return taken
