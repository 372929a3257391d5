"""The execution shape of one step: which container runs it and how far it is padded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DispatchReason = Literal["hit", "above_max", "mixed", "not_captured", "lora", "disabled", "prompt_embeds"]


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """`padded_tokens` >= num_tokens, `padded_reqs` >= num_reqs; equal when nothing is padded.

    Full graphs pad tokens and requests, piecewise graphs pad tokens only. `size` is the captured size, None in eager.
    """

    mode: Literal["none", "piecewise", "full"]
    reason: DispatchReason
    num_tokens: int
    num_reqs: int
    padded_tokens: int
    padded_reqs: int
    uniform: bool
    size: int | None = None
