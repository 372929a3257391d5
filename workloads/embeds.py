"""Requests that bring embeddings for a part of their prompt, as one with an image in it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .requests import Request
from .seeds import generator
from .step import PromptEmbeds


def with_embeds(requests: Sequence[Request], share: float, hidden: int, seed: int) -> tuple[Request, ...]:
    """`requests`, of which each brings embeddings with probability `share`: for half of its prompt, in one piece that
    begins anywhere, `hidden` normal numbers a position. Who, where and what follow from `seed` and the request's id.
    """
    return tuple(_with_own(request, share, hidden, seed) for request in requests)


def _with_own(request: Request, share: float, hidden: int, seed: int) -> Request:
    random = generator(seed, f"embeds/{request.req_id}")
    if random.random() >= share:
        return request
    count = -(-request.prompt_len // 2)
    first = int(random.integers(0, request.prompt_len - count + 1))
    values = random.standard_normal((count, hidden), dtype=np.float32)
    return replace(request, prompt_embeds=PromptEmbeds(np.arange(first, first + count, dtype=np.int64), values))
