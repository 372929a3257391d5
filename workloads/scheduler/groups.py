"""KV cache groups: layers that keep their keys and values alike share a list of blocks for each request."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from ...errors import UsageError

GroupKind = Literal["full", "window", "state"]

_TEXT = re.compile(r"(full|window=(?P<window>\d+)|state)(/(?P<block>\d+))?")


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What one group keeps.

    full    keys and values of every position
    window  those of the last `window` positions: a query sees itself and window - 1 before it; blocks that no later
            query can see go back to the pool
    state   one block of recurrent state a request, however long it is; positions have no slots in it
    `block_size` is the tokens a block of this group; None takes the common one.
    """

    kind: GroupKind
    window: int | None = None
    block_size: int | None = None

    @property
    def has_slots(self) -> bool:
        """Whether each token has a place of its own in this group."""
        return self.kind != "state"

    def first_visible(self, num_computed: int) -> int:
        """The first position that a query at `num_computed`, or any later one, can see."""
        return 0 if self.window is None else max(num_computed - self.window + 1, 0)

    def entries(self, num_tokens: int, block_size: int) -> int:
        """Length of the row of a request with `num_tokens` tokens: its blocks, those below a window included."""
        return -(-num_tokens // block_size) if self.has_slots else 1

    def most_held(self, num_tokens: int, block_size: int, budget: int) -> int:
        """Blocks that such a request owns at most at a time, in steps of up to `budget` tokens: all of its row, or a
        window and the chunk behind it, with a block begun at either end.
        """
        entries = self.entries(num_tokens, block_size)
        if self.window is None:
            return entries
        return min(entries, self.entries(self.window - 1 + budget, block_size) + 1)


def parse_group(text: str) -> GroupSpec:
    """`full`, `window=128` or `state`, each with `/32` behind it for a block size of its own. Raises UsageError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"kv_groups: {text!r} is no group; write full, window=N or state, and /B for its block size")
    window, block = (int(match[name]) if match[name] else None for name in ("window", "block"))
    if window == 0 or block == 0:
        raise UsageError(f"kv_groups: {text!r} has a size of 0; windows and blocks hold at least one token")
    kind: GroupKind = "window" if window is not None else "state" if text.startswith("state") else "full"
    return GroupSpec(kind, window, block)


@functools.lru_cache(maxsize=64)
def parse_groups(texts: tuple[str, ...]) -> tuple[GroupSpec, ...]:
    """All groups of a cache, in the order of a request's block lists. Raises UsageError."""
    groups = tuple(parse_group(text) for text in texts)
    if not any(group.has_slots for group in groups):
        raise UsageError(f"kv_groups: {list(texts)} has no group that keeps keys and values; add full or window=N")
    return groups
