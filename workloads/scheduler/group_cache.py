"""One KV cache group of the scheduler: what a request needs of it, what it can find there, what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

from .block_pool import NULL_BLOCK, BlockPool
from .groups import GroupSpec


class GroupCache:
    """Blocks of one group in the common pool. Content is found by hash within the group only: the same tokens have
    other keys and values in another group's layers.

    block_size  tokens a block, except in a state group, where one block holds any length
    """

    def __init__(self, spec: GroupSpec, block_size: int, index: int, pool: BlockPool) -> None:
        self.spec = spec
        self.block_size = block_size
        self._pool = pool
        self._suffix = index.to_bytes(2, "little") if index else b""

    def blocks_for(self, num_tokens: int) -> int:
        """Entries of the row of a request with `num_tokens` tokens."""
        return self.spec.entries(num_tokens, self.block_size)

    def find(self, keys: Sequence[bytes]) -> list[int]:
        """The row of the longest prefix that can be gone on from here, null blocks where nothing will be read.

        `keys` are of the full blocks that may be used. A window needs only the blocks that it reaches into.
        """
        if self.spec.window is None:
            return self._pool.find(key + self._suffix for key in keys)
        needed = -(-(self.spec.window - 1) // self.block_size)
        run: list[int] = []  # backwards
        for index in range(len(keys) - 1, -1, -1):
            block = self._pool.find_one(keys[index] + self._suffix)
            if block is None:
                run.clear()
                continue
            run.append(block)
            if len(run) == needed:
                return [NULL_BLOCK] * index + run[::-1]
        return run[::-1]  # what is cached from the very beginning on

    def remember(self, blocks: Sequence[int], keys: Sequence[bytes], first: int, end: int) -> None:
        """Make the blocks `first` .. `end` - 1 of a row findable."""
        for index in range(first, end):
            if blocks[index] != NULL_BLOCK:
                self._pool.cache(blocks[index], keys[index] + self._suffix)

    def leave_behind(self, blocks: list[int], num_computed: int) -> None:
        """Give back what no query from `num_computed` on can see; null blocks take its place in the row."""
        end = self.spec.first_visible(num_computed) // self.block_size
        passed: list[int] = []
        for index in range(min(end, len(blocks)) - 1, -1, -1):
            if blocks[index] == NULL_BLOCK:
                break  # all before it were passed earlier
            passed.append(blocks[index])
            blocks[index] = NULL_BLOCK
        self._pool.give_back(passed[::-1])
