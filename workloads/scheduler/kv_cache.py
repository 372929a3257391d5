"""Blocks for requests: growth, admission with prefix hits, release; in one KV cache group or several."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..step import BlockIds
from .block_pool import NULL_BLOCK, BlockPool
from .config import SchedulerConfig
from .group_cache import GroupCache
from .state import RequestState


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """What a request finds computed: `num_tokens` tokens, and its row of blocks in each group."""

    num_tokens: int
    rows: tuple[list[int], ...]

    def owned(self) -> list[int]:
        """Its blocks, without the null blocks below windows."""
        return [block for row in self.rows for block in row if block != NULL_BLOCK]


class KVCache:
    """Gives blocks of one pool to requests, and remembers full blocks by content where that is switched on."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._caching = config.enable_prefix_caching
        self.pool = BlockPool(config.num_blocks)
        sizes = config.group_block_sizes
        self.groups = tuple(
            GroupCache(spec, size, index, self.pool)
            for index, (spec, size) in enumerate(zip(config.groups, sizes, strict=True))
        )
        self._paged = tuple(index for index, group in enumerate(self.groups) if group.spec.has_slots)
        self._windowed = tuple(index for index, group in enumerate(self.groups) if group.spec.window is not None)
        self.has_windows = bool(self._windowed)
        self.grain = math.gcd(*sizes)
        """Tokens after which some block may be full."""
        self._stride = math.lcm(*(sizes[index] for index in self._paged))  # a hit ends where blocks of all groups end

    def grow(self, state: RequestState, num_tokens: int) -> BlockIds | None:
        """Blocks so that `state` holds `num_tokens` tokens: those added, group by group (empty if none at all), or None
        if too few are free.
        """
        missing = [
            max(group.blocks_for(num_tokens) - len(row), 0)
            for group, row in zip(self.groups, state.blocks, strict=True)
        ]
        total = sum(missing)
        if not total:
            return ()
        if total > self.pool.num_free:
            return None
        added = tuple(tuple(self.pool.take(count)) for count in missing)
        for row, blocks in zip(state.blocks, added, strict=True):
            row.extend(blocks)
        state.capacity = min(len(state.blocks[index]) * self.groups[index].block_size for index in self._paged)
        return added

    def leave_behind(self, state: RequestState, num_computed: int) -> None:
        """Give back the blocks that its sliding windows have passed with `num_computed` tokens, none of them in flight:
        drafts there may be rejected.
        """
        for index in self._windowed:
            self.groups[index].leave_behind(state.blocks[index], num_computed)

    def prepare(self, state: RequestState) -> None:
        """Hash its prompt ahead of time, where hashes will be asked for."""
        state.blocks = [[] for _ in self.groups]
        if self._caching:
            for group in self.groups:
                state.block_keys(group.block_size, state.num_prompt // group.block_size)

    def find_prefix(self, state: RequestState) -> PrefixHit:
        """Cached blocks of its longest known prefix. At least one token is always left to compute.

        A prefix counts where every group can go on from it, so a shorter one of one group shortens those of the others.
        """
        if not self._caching:
            return PrefixHit(0, tuple([] for _ in self.groups))
        length, before = (state.num_tokens - 1) // self._stride * self._stride, -1
        rows: list[list[int]] = []
        while length != before:
            before, rows = length, []
            for group in self.groups:
                keys = state.block_keys(group.block_size, state.num_tokens // group.block_size)
                rows.append(group.find(keys[: length // group.block_size]))
                length = min(length, len(rows[-1]) * group.block_size) // self._stride * self._stride
        return PrefixHit(length, tuple(rows))

    def admit(self, state: RequestState, hit: PrefixHit, num_tokens: int, keep_free: int) -> bool:
        """Give `state` the hit blocks and those for `num_tokens` tokens, or nothing and False.

        `keep_free` blocks stay free (watermark). The whole input must fit where the config says so; the output too,
        and then its blocks are taken now.
        """
        config = self._config
        if config.reserve_output:
            num_tokens = config.reach(state.limit)
        must_fit = max(num_tokens, state.num_tokens) if config.reserve_full_input else num_tokens
        owned = hit.owned()
        needed = self._needed(hit, num_tokens, must_fit) + self.pool.num_unowned(owned)
        if needed + keep_free > self.pool.num_free:
            return False
        self.pool.share(owned)
        state.blocks = [list(row) for row in hit.rows]
        state.num_cached_tokens = hit.num_tokens
        state.num_computed = hit.num_tokens
        added = self.grow(state, num_tokens)
        assert added is not None, state.req_id
        return True

    def _needed(self, hit: PrefixHit, now: int, later: int) -> int:
        """Blocks that are taken for `now` tokens, or will have been for `later`, whichever is more, group by group."""
        budget, needed = self._config.max_in_flight, 0
        for group, row in zip(self.groups, hit.rows, strict=True):
            held = group.spec.most_held(later, group.block_size, budget)
            then = min(group.blocks_for(later) - len(row), held)
            needed += max(group.blocks_for(now) - len(row), then)
        return needed

    def remember(self, state: RequestState, num_tokens: int) -> None:
        """Make the blocks that are full at `num_tokens` tokens findable, at once: later requests of the step see them.

        The content is known although the step that writes it has not run; whoever hits it runs after or beside it.
        Where a token is still in flight it is not known, and a block with it waits until it has come back.
        """
        known, cached = min(num_tokens, state.num_tokens), state.num_cached_tokens
        if not self._caching or known <= cached:
            return
        for group, row in zip(self.groups, state.blocks, strict=True):
            first, end = cached // group.block_size, known // group.block_size
            if end > first:
                group.remember(row, state.block_keys(group.block_size, end), first, end)
        state.num_cached_tokens = known // self.grain * self.grain

    def release(self, state: RequestState) -> None:
        """All its blocks go back; what they hold may still be hit until they are reused."""
        for row in state.blocks:
            self.pool.give_back([block for block in row if block != NULL_BLOCK] if self._windowed else row)
        state.blocks = [[] for _ in self.groups]
        state.capacity = 0
        state.num_cached_tokens = 0
        state.num_computed = 0
        state.num_placeholders = 0
