"""Blocks for requests: growth, admission with prefix hits, release."""

from __future__ import annotations

from .block_pool import BlockPool
from .config import SchedulerConfig
from .state import RequestState


class KVCache:
    """Gives blocks of one pool to requests, and remembers full blocks by content where that is switched on."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._caching = config.enable_prefix_caching
        self.pool = BlockPool(config.num_blocks)

    def grow(self, state: RequestState, num_tokens: int) -> list[int] | None:
        """Blocks so that `state` holds `num_tokens` tokens: those added ([] if none), or None if too few are free."""
        missing = self._config.blocks_for(num_tokens) - len(state.blocks)
        if missing <= 0:
            return []
        if missing > self.pool.num_free:
            return None
        added = self.pool.take(missing)
        state.blocks.extend(added)
        state.capacity = len(state.blocks) * self._config.block_size
        return added

    def prepare(self, state: RequestState) -> None:
        """Hash its prompt ahead of time, where hashes will be asked for."""
        if self._caching:
            state.block_keys(self._config.block_size, state.num_prompt // self._config.block_size)

    def find_prefix(self, state: RequestState) -> list[int]:
        """Cached blocks of its longest known prefix. At least one token is always left to compute."""
        if not self._caching:
            return []
        full = (state.num_tokens - 1) // self._config.block_size
        keys = state.block_keys(self._config.block_size, state.num_tokens // self._config.block_size)
        return self.pool.find(keys[:full])

    def admit(self, state: RequestState, hit: list[int], num_tokens: int, keep_free: int) -> bool:
        """Give `state` the hit blocks and those for `num_tokens` tokens, or nothing and False.

        `keep_free` blocks stay free (watermark). The whole input must fit where the config says so; the output too,
        and then its blocks are taken now.
        """
        config = self._config
        if config.reserve_output:
            num_tokens = config.reach(state.limit)
        must_fit = max(num_tokens, state.num_tokens) if config.reserve_full_input else num_tokens
        needed = config.blocks_for(must_fit) - len(hit) + self.pool.num_unowned(hit)
        if needed + keep_free > self.pool.num_free:
            return False
        self.pool.share(hit)
        state.blocks = list(hit)
        state.num_cached_blocks = len(hit)
        state.num_computed = len(hit) * config.block_size
        added = self.grow(state, num_tokens)
        assert added is not None, state.req_id
        state.capacity = len(state.blocks) * config.block_size
        return True

    def remember(self, state: RequestState, num_tokens: int) -> None:
        """Make the blocks that are full at `num_tokens` tokens findable, at once: later requests of the step see them.

        The content is known although the step that writes it has not run; whoever hits it runs after or beside it.
        Where a token is still in flight it is not known, and a block with it waits until it has come back.
        """
        full = min(num_tokens, state.num_tokens) // self._config.block_size
        if not self._caching or full <= state.num_cached_blocks:
            return
        keys = state.block_keys(self._config.block_size, full)
        for index in range(state.num_cached_blocks, full):
            self.pool.cache(state.blocks[index], keys[index])
        state.num_cached_blocks = full

    def release(self, state: RequestState) -> None:
        """All its blocks go back; what they hold may still be hit until they are reused."""
        self.pool.give_back(state.blocks)
        state.blocks = []
        state.capacity = 0
        state.num_cached_blocks = 0
        state.num_computed = 0
        state.num_placeholders = 0
