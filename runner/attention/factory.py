"""Attention backends by name, imported only when they are asked for."""

from __future__ import annotations

import os

from ...errors import UsageError
from ..config import AttentionSwitch, GraphModeSwitch
from ..devices.base import Device
from ..dispatch_rules import supported_mode
from .metadata import AttentionBackend


def make_attention(
    switch: AttentionSwitch, device: Device, graph_mode: GraphModeSwitch = "none", reach: int | None = None
) -> AttentionBackend:
    """The backend behind the switch. `auto`: Triton on a GPU (the reference would synchronise), else torch.

    `reach` is the model's (`ModelConfig`). Raises UsageError for full graphs of a backend that synchronises (between
    pieces of a graph it may), and for Triton where neither a GPU nor its interpreter runs it, or with a `reach`.
    """
    on_gpu = device.tensor_device.type == "cuda"
    if switch == "triton" and not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        raise UsageError(
            "attention: triton needs a GPU; use attention=auto, or set TRITON_INTERPRET=1 for its interpreter, whose"
            " results are right and whose times mean nothing"
        )
    if switch == "torch" and on_gpu and graph_mode.startswith("full"):
        left = supported_mode(graph_mode, piecewise=True, support="never")
        raise UsageError(
            f"attention: torch waits for the GPU within a forward, which graph_mode {graph_mode} cannot capture;"
            f" use attention=triton, or graph_mode={left}"
        )
    if switch == "triton" or (switch == "auto" and on_gpu):
        if reach is not None:
            raise UsageError(
                f"model: one that looks back at {reach} positions stands in on a modelled device; name another one here"
            )
        from .triton_backend import TritonAttention

        return TritonAttention()
    from .torch_backend import TorchAttention

    return TorchAttention(reach)
