"""What the scheduler hands to the model runner and what comes back.

`StepDelta` carries differences only: a request's full prompt travels once, afterwards the worker is told what changed.
`StepResult` carries the tokens that became visible in the step.
Semantics follow vLLM's SchedulerOutput (V1); field names are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int32]
BlockIds = tuple[tuple[int, ...], ...]
"""One tuple of block ids for each KV cache group."""
PLACEHOLDER = -1
"""In the place of a token that the host has not got: a draft that only the device knows when the step is scheduled, or
a token of a history that was sampled, or will be. No token's id.
"""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request chooses its tokens. `temperature == 0` is greedy; `top_k == 0` and `top_p == 1` are off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PromptEmbeds:
    """Embeddings that stand in the place of tokens in a prompt; everywhere else its token ids count.

    positions  [n] int64, increasing;  values  [n, hidden] float32
    """

    positions: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]

    @property
    def end(self) -> int:
        """Behind the last position that has one."""
        return int(self.positions[-1]) + 1 if self.positions.size else 0

    def span(self, start: int, end: int) -> slice:
        """Which of them stand at the positions [start, end)."""
        first, last = np.searchsorted(self.positions, (start, end)).tolist()
        return slice(first, last)


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request's first appearance: everything that the worker needs to know of it.

    `block_ids` include the blocks of a prefix hit; `num_computed_tokens` is the length of that hit. The whole prompt
    travels even after a hit, because penalties, checks and resumes read the history.
    """

    req_id: str
    prompt_token_ids: TokenIds  # [prompt_len]
    block_ids: BlockIds
    num_computed_tokens: int = 0
    sampling: SamplingParams = SamplingParams()
    prompt_embeds: PromptEmbeds | None = None


@dataclass(frozen=True, slots=True)
class CachedRequests:
    """Differences of requests that the worker already knows, as parallel columns.

    `new_block_ids[i]` is appended to the request's row, or None when no block was added; for an id in
    `resumed_req_ids` it *replaces* the row, because the old blocks went back to the pool.
    `all_token_ids` holds the full history of each request here that was not scheduled in the step before.
    """

    req_ids: tuple[str, ...] = ()
    new_block_ids: tuple[BlockIds | None, ...] = ()
    num_computed_tokens: tuple[int, ...] = ()
    num_output_tokens: tuple[int, ...] = ()
    resumed_req_ids: frozenset[str] = frozenset()
    all_token_ids: Mapping[str, TokenIds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepDelta:
    """One scheduled step. `num_scheduled_tokens` is in the scheduler's order, which is not the batch's row order.

    `scheduled_spec_decode_tokens` names the drafts among a request's scheduled tokens, its last ones; a request without
    drafts is absent. PLACEHOLDER stands for a draft that only the device knows.
    """

    step: int
    new_requests: tuple[NewRequest, ...] = ()
    cached: CachedRequests = CachedRequests()
    num_scheduled_tokens: Mapping[str, int] = field(default_factory=dict)
    finished_req_ids: frozenset[str] = frozenset()
    preempted_req_ids: tuple[str, ...] = ()
    scheduled_spec_decode_tokens: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def total_num_scheduled_tokens(self) -> int:
        """Q, the number of real tokens in the flat stream of this step."""
        return sum(self.num_scheduled_tokens.values())


@dataclass(frozen=True, slots=True)
class StepResult:
    """Tokens that became visible, by request. A request whose prompt is not yet covered has no entry.

    With speculation a request may show several: the accepted drafts and the token behind them. `drafts` are the tokens
    to verify in its next step; a request without any is absent.
    """

    step: int
    sampled: Mapping[str, tuple[int, ...]]
    drafts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
