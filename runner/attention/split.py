"""Where the decodes of a reordered batch end: backends may run the rows before that border and behind it apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def leading_decodes(query_lens: npt.NDArray[np.integer], decode_query_len: int) -> int:
    """How many rows stand before the first one of more than `decode_query_len` tokens.

    query_lens  [R'] tokens of each row; padding rows have 0 and count as decodes
    """
    longer = np.flatnonzero(query_lens > decode_query_len)
    return int(longer[0]) if longer.size else query_lens.size
