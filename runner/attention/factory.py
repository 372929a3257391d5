"""Attention backends by name, imported only when they are asked for."""

from __future__ import annotations

from ..config import AttentionSwitch
from ..devices.base import Device
from .metadata import AttentionBackend


def make_attention(switch: AttentionSwitch, device: Device) -> AttentionBackend:
    """The backend behind the switch. `auto`: Triton on a GPU (the reference would synchronise), else torch."""
    on_gpu = device.tensor_device.type == "cuda"
    if switch == "triton" or (switch == "auto" and on_gpu):
        from .triton_backend import TritonAttention

        return TritonAttention()
    from .torch_backend import TorchAttention

    return TorchAttention()
