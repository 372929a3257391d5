"""Attention backends by name, imported only when they are asked for."""

from __future__ import annotations

import os

from ...errors import UsageError
from ..config import AttentionSwitch, GraphModeSwitch
from ..devices.base import Device
from ..dispatch_rules import supported_mode
from ..shards import WHOLE, Shards
from .masks import StepMasks
from .metadata import AttentionBackend


def make_attention(
    switch: AttentionSwitch, device: Device, graph_mode: GraphModeSwitch = "none", reach: int | None = None,
    shards: Shards = WHOLE, masks: StepMasks | None = None,
) -> AttentionBackend:  # fmt: skip
    """The backend behind the switch. `auto`: Triton on a GPU (the reference would synchronise), else torch; torch
    wherever `shards` cut the keys among ranks, or explicit `masks` are given.

    `reach` is the model's (`ModelConfig`). Raises UsageError for full graphs of a backend that synchronises (between
    pieces of a graph it may), for Triton where neither a GPU nor its interpreter runs it, or with a `reach`, and for
    ranks with a `reach`.
    """
    on_gpu, sharded = device.tensor_device.type == "cuda", shards.ranks > 1
    if switch == "triton" and not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        raise UsageError(
            "attention: triton needs a GPU; use attention=auto, or set TRITON_INTERPRET=1 for its interpreter, whose"
            " results are right and whose times mean nothing"
        )
    if (switch == "torch" or sharded) and on_gpu and graph_mode.startswith("full"):
        left = supported_mode(graph_mode, piecewise=True, support="never")
        raise UsageError(
            f"attention: torch waits for the GPU within a forward, which graph_mode {graph_mode} cannot capture;"
            f" use {'dcp=1' if sharded else 'attention=triton'}, or graph_mode={left}"
        )
    if sharded:
        if reach is not None:
            raise UsageError(
                f"model: one that looks back at {reach} positions does so in one cache; name another one, or use dcp=1"
            )
        from .sharded import ShardedAttention

        return ShardedAttention(shards)
    if masks is not None:
        from .masked_backend import MaskedAttention

        return MaskedAttention(masks, reach)
    if switch == "triton" or (switch == "auto" and on_gpu):
        if reach is not None:
            raise UsageError(
                f"model: one that looks back at {reach} positions stands in on a modelled device; name another one here"
            )
        from .triton_backend import TritonAttention

        return TritonAttention()
    from .torch_backend import TorchAttention

    return TorchAttention(reach)
