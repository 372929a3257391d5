"""Random streams: one seed and one name make one generator."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, stream: str) -> np.random.Generator:
    """The generator of one named stream.

    Seeded by SHA-256 of (seed, stream), so that streams are independent of each other and of the order in which they
    are used: a workload that draws more lengths still has the same arrivals. Stable across processes and platforms,
    unlike Python's `hash(str)`.
    """
    digest = hashlib.sha256(f"{seed}\x00{stream}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
