"""The order of a step where rows do not move: who comes first in the index map."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def step_order(
    num_scheduled: npt.NDArray[np.int32], decode_query_len: int = 1
) -> npt.NDArray[np.intp] | None:
    """Places [R] of requests in the scheduler's order, sorted: those with exactly `decode_query_len` tokens (decodes,
    so that they stand together), then the others from short extends to long prefills; ties keep the scheduler's order.
    None when that is the order already. Source of the rule: vLLM's newer runner, sort_batch_req_ids.
    """
    if num_scheduled.size == 0 or num_scheduled.min() == num_scheduled.max():
        return None
    keys = np.where(num_scheduled == decode_query_len, 0, num_scheduled + 1)
    if (keys[1:] >= keys[:-1]).all():
        return None
    return np.argsort(keys, kind="stable")
