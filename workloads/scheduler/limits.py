"""Whether a request can ever be served within the scheduler's limits."""

from __future__ import annotations

from ...errors import UsageError
from ..requests import Request
from .config import SchedulerConfig


def token_limit(request: Request, config: SchedulerConfig) -> int:
    """Tokens at which generation of `request` ends: prompt + output, cut at max_model_len.

    Raises UsageError when it can never run: the prompt fills max_model_len, the pool is smaller than the request,
    or the prompt exceeds a step's budget that it may not be cut to.
    """
    name = f"request {request.req_id}"
    if request.prompt_len >= config.max_model_len:
        raise UsageError(
            f"{name}: its prompt of {request.prompt_len} tokens leaves no room for an answer within "
            f"max_model_len {config.max_model_len}; raise max_model_len above {request.prompt_len} or shorten it"
        )
    limit = min(request.prompt_len + request.output_len, config.max_model_len)
    reach = config.reach(limit)
    needed = config.blocks_for(reach)
    if needed > config.num_blocks - 1:
        raise UsageError(
            f"{name}: {reach} tokens need {needed} blocks of {config.block_size}, the pool has "
            f"{config.num_blocks - 1} beside the null block; set num_blocks to at least {needed + 1}"
        )
    if not config.enable_chunked_prefill and limit > config.max_num_batched_tokens:
        raise UsageError(
            f"{name}: {limit} tokens exceed max_num_batched_tokens {config.max_num_batched_tokens} and prompts are "
            f"not chunked; raise it or set enable_chunked_prefill"
        )
    return limit
