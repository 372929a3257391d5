"""Physical KV blocks: who owns them, in which order they are handed out again, which ones can be found by hash."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

NULL_BLOCK = 0
"""Never handed out: padding rows and skipped positions point here."""


class BlockPool:
    """Blocks 1 .. num_blocks - 1; block 0 is the null block.

    Order of reuse (vLLM 0.33's, read off its recorded streams): what was freed without a hash comes back first, the
    last freed first, because nothing is lost with it; then blocks never used, ascending; then hashed blocks, least
    recently freed first, since each of them may still be hit.

    `num_blocks` may be a million (width 8192 at 128 rows), hence no linked list of all free blocks: two containers
    and a counter are the same queue.
    """

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._recycled: list[int] = []  # stack, unhashed
        self._next_fresh = 1
        self._evictable: OrderedDict[int, None] = OrderedDict()  # free but hashed, oldest first
        self._refs = [0] * num_blocks
        self._key_of: dict[int, bytes] = {}
        self._first_with: dict[bytes, int] = {}
        self._others_with: dict[bytes, list[int]] = {}  # more blocks of the same content, in order of caching

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out now, hashed ones included."""
        return len(self._recycled) + (self._num_blocks - self._next_fresh) + len(self._evictable)

    def take(self, count: int) -> list[int]:
        """`count` free blocks, each owned once. The caller has checked `num_free`."""
        taken = []
        for _ in range(count):
            block = self._pop()
            self._refs[block] = 1
            taken.append(block)
        return taken

    def _pop(self) -> int:
        if self._recycled:
            return self._recycled.pop()
        if self._next_fresh < self._num_blocks:
            self._next_fresh += 1
            return self._next_fresh - 1
        block, _ = self._evictable.popitem(last=False)
        self._forget(block)
        return block

    def share(self, blocks: Sequence[int]) -> None:
        """One more owner for each of `blocks`, which come from `find`."""
        refs = self._refs
        for block in blocks:
            if refs[block] == 0:
                del self._evictable[block]
            refs[block] += 1

    def give_back(self, blocks: Sequence[int]) -> None:
        """One owner less for each block of a request's row, the row's tail first: prefixes live longest."""
        unhashed = []
        for block in reversed(blocks):
            self._refs[block] -= 1
            if self._refs[block]:
                continue
            if block in self._key_of:
                self._evictable[block] = None
            else:
                unhashed.append(block)
        self._recycled.extend(reversed(unhashed))

    def cache(self, block: int, key: bytes) -> None:
        """Make a full block findable. `key` is the chained hash of all tokens up to its end."""
        self._key_of[block] = key
        if key in self._first_with:
            self._others_with.setdefault(key, []).append(block)
        else:
            self._first_with[key] = block

    def find_one(self, key: bytes) -> int | None:
        """The block of `key`, None where it is not cached."""
        return self._first_with.get(key)

    def find(self, keys: Iterable[bytes]) -> list[int]:
        """The blocks of the longest run of `keys` that is cached."""
        found = []
        for key in keys:
            block = self._first_with.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def num_unowned(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` are free at the moment: sharing them takes them from the free ones."""
        refs = self._refs
        return sum(refs[block] == 0 for block in blocks)

    def forget_all(self) -> None:
        """Drop every hash. The order of reuse stays."""
        self._key_of.clear()
        self._first_with.clear()
        self._others_with.clear()

    def _forget(self, block: int) -> None:
        key = self._key_of.pop(block, None)
        if key is None:
            return  # its hash was dropped by forget_all
        others = self._others_with.get(key)
        if self._first_with[key] != block:
            assert others is not None
            others.remove(block)
        elif others:
            self._first_with[key] = others.pop(0)
        else:
            del self._first_with[key]
        if others is not None and not others:
            del self._others_with[key]
