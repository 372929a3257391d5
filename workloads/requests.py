"""A request as a workload states it, before any engine has seen it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import UsageError
from .seeds import generator
from .step import PromptEmbeds, SamplingParams, TokenIds

DEFAULT_SAMPLING = SamplingParams()


@dataclass(frozen=True, slots=True)
class PrefixHashes:
    """What a trace tells of a prompt's content: one id for each block of `block_tokens`, the last may be partial.

    Ids are prefix hashes: an equal id means an equal prompt up to the end of that block. Reuse between two prompts is
    therefore their longest common run of ids.
    """

    block_tokens: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Generation ends after `output_len` tokens, or with the first of `stop_token_ids`: by default there
    is none, so that the length is known in advance.

    `arrival_ns` counts from the start of the workload. Prompt tokens are not stored: `prompt_token_ids()` derives
    them from (`seed`, `req_id`), or, where the trace names prefix hashes, from (`seed`, hash id), so that equal hash
    prefixes are equal token prefixes and different ones differ. `prompt_embeds` stand in the place of some of them, and
    such a request shares no cached prefix with another one.
    """

    req_id: str
    prompt_len: int
    output_len: int
    vocab_size: int
    arrival_ns: int = 0
    seed: int = 0
    sampling: SamplingParams = DEFAULT_SAMPLING
    prefix: PrefixHashes | None = None
    stop_token_ids: frozenset[int] = frozenset()
    prompt_embeds: PromptEmbeds | None = None

    def __post_init__(self) -> None:
        for field in ("prompt_len", "output_len", "vocab_size"):
            if getattr(self, field) < 1:
                raise UsageError(f"request {self.req_id}: {field} is {getattr(self, field)}; it must be at least 1")
        if self.arrival_ns < 0:
            raise UsageError(f"request {self.req_id}: arrival_ns is {self.arrival_ns}; it must not be negative")
        if self.prefix is not None and len(self.prefix.ids) * self.prefix.block_tokens < self.prompt_len:
            raise UsageError(
                f"request {self.req_id}: {len(self.prefix.ids)} prefix hashes of {self.prefix.block_tokens} tokens "
                f"do not cover its prompt of {self.prompt_len} tokens"
            )

    def prompt_token_ids(self) -> TokenIds:
        """The prompt, int32 [prompt_len], each id in [0, vocab_size). Derived anew at every call."""
        if self.prefix is None:
            return _tokens(self.seed, f"prompt/{self.req_id}", self.vocab_size, self.prompt_len)
        size = self.prefix.block_tokens
        used = -(-self.prompt_len // size)
        blocks = [_tokens(self.seed, f"prefix/{hash_id}", self.vocab_size, size) for hash_id in self.prefix.ids[:used]]
        return np.concatenate(blocks)[: self.prompt_len]


def _tokens(seed: int, stream: str, vocab_size: int, count: int) -> TokenIds:
    return generator(seed, stream).integers(0, vocab_size, size=count, dtype=np.int32)
