"""What the scheduler knows of one request while it waits and runs."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ..requests import Request
from ..step import TokenIds

_ROOT_KEY = b"stepscope block chain"
NEVER = -1


class RequestState:
    """Mutable: one for each unfinished request, owned by the scheduler.

    num_tokens       prompt plus what was sampled and came back; `limit` is where generation ends
    num_placeholders tokens behind them that scheduled steps will sample, if all their drafts are accepted: in flight
    drafts           proposed tokens behind all these, which its next step verifies
    num_drafts_in_flight  drafts among the tokens in flight
    num_computed     tokens whose KV is written, or will be by the steps already scheduled
    last_step        the last step that scheduled it, NEVER before the first and after a forced reset
    last_count       the tokens that it scheduled
    partial          the last step that scheduled it did not compute it to its end
    stale_through    the last step in flight when it was preempted for want of blocks: its tokens still come
    valid_from_step  results of earlier steps were in flight at a forced reset: their tokens are dropped
    dropped_through  the last of those
    started          it has been sent to the worker before: coming back it is resumed, not new
    """

    __slots__ = (
        "blocks",
        "capacity",
        "drafts",
        "dropped_through",
        "keys",
        "last_count",
        "last_step",
        "limit",
        "num_cached_tokens",
        "num_computed",
        "num_drafts_in_flight",
        "num_placeholders",
        "num_prompt",
        "num_tokens",
        "partial",
        "req_id",
        "request",
        "root_key",
        "stale_through",
        "started",
        "stops",
        "tokens",
        "valid_from_step",
    )

    def __init__(self, request: Request, limit: int, valid_from_step: int = 0) -> None:
        self.request = request
        self.req_id = request.req_id
        self.limit = limit
        self.num_prompt = request.prompt_len
        self.num_tokens = request.prompt_len
        self.num_computed = 0
        self.num_placeholders = 0
        self.num_drafts_in_flight = 0
        self.drafts: tuple[int, ...] = ()
        self.tokens: TokenIds = np.empty(limit, dtype=np.int32)
        self.tokens[: self.num_prompt] = request.prompt_token_ids()
        self.keys: dict[int, list[bytes]] = {}  # by block size
        self.blocks: list[list[int]] = []  # its row in each KV cache group
        self.capacity = 0  # tokens that `blocks` hold
        self.num_cached_tokens = 0  # their full blocks can be found by content
        self.last_step = NEVER
        self.last_count = 0
        self.partial = False
        self.stale_through = NEVER
        self.valid_from_step = valid_from_step
        self.dropped_through = NEVER
        self.started = False
        self.stops = request.stop_token_ids
        own = request.prompt_embeds is not None  # equal ids are no equal content then
        self.root_key = _ROOT_KEY + request.req_id.encode() if own else _ROOT_KEY

    def settled(self, step: int) -> int:
        """Computed tokens when `step` has come back: all but those of a step in flight behind it."""
        return self.num_computed - (self.last_count if self.last_step > step else 0)

    def history(self) -> TokenIds:
        """All its tokens so far, int32 [num_tokens]. Never written again, so it may be handed out."""
        return self.tokens[: self.num_tokens]

    def append(self, tokens: tuple[int, ...]) -> bool:
        """Take sampled tokens, up to `limit` or the first stop token. True when that ended the request."""
        history, stops = self.tokens, self.stops
        kept = tokens[: self.limit - self.num_tokens]
        for token in kept:
            history[self.num_tokens] = token
            self.num_tokens += 1
            if token in stops:
                return True
        return self.num_tokens >= self.limit

    def block_keys(self, block_size: int, num_blocks: int) -> list[bytes]:
        """Chained hashes of its first `num_blocks` full blocks, at least; each covers the whole prefix before it."""
        keys = self.keys.setdefault(block_size, [])
        if len(keys) >= num_blocks:
            return keys
        parent = keys[-1] if keys else self.root_key
        raw = self.tokens[len(keys) * block_size : num_blocks * block_size].tobytes()
        stride = block_size * self.tokens.itemsize
        for start in range(0, len(raw), stride):
            parent = blake2b(parent + raw[start : start + stride], digest_size=16).digest()
            keys.append(parent)
        return keys
