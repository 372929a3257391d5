"""One generator for each random stream, seeded by SHA-256 of (seed, stream name)."""

from __future__ import annotations

import hashlib

import torch


def stream_seed(seed: int, *names: str) -> int:
    """A 63-bit seed for the stream `names` under `seed`; the same on every machine and in every process."""
    text = "\x1f".join((str(seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream_generator(seed: int, *names: str) -> torch.Generator:
    """A CPU generator of its own for the stream `names`."""
    return torch.Generator().manual_seed(stream_seed(seed, *names))
