"""Steps that nobody scheduled: for captures, warm-up and measurements."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def shared_evenly(total: int, parts: int) -> npt.NDArray[np.int64]:
    """`total` as `parts` integers that differ by at most 1, the larger ones last, as vLLM's dummy batches have them."""
    share, rest = divmod(total, parts)
    shares: npt.NDArray[np.int64] = np.full(parts, share, dtype=np.int64)
    if rest:
        shares[-rest:] += 1
    return shares
