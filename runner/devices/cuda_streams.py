"""Streams of `cuda` devices, handed on from one to the next in a process."""

from __future__ import annotations

import torch

from .base import StreamName
from .streams import STREAMS

Streams = dict[StreamName, torch.cuda.Stream]

_URGENT: frozenset[StreamName] = frozenset({"output"})
"""Sampled tokens leave ahead of the next step. At equal priority a GPU that is taking in a long graph may attend to
their stream behind it: on an H200 tokens came 3 ms late, every third step, in 40 of 108 blocks of 30 steps; with
priority (on another machine) in 14 of 162."""

_spare: list[Streams] = []
"""Of closed devices. cuBLAS keeps a workspace (32 MiB on an H200) for every stream that it was ever called on, so a
sweep whose points each made streams of their own would lose one a point."""


def take_streams() -> Streams:
    """One stream of each name that no open device uses."""
    return _spare.pop() if _spare else {name: torch.cuda.Stream(priority=-(name in _URGENT)) for name in STREAMS}


def give_streams(streams: Streams) -> None:
    """For the next device; nothing of this one is in flight any more."""
    _spare.append(streams)
