"""Where the decodes of a reordered batch end: backends may run the rows before that border and behind it apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class DecodeSplit:
    """Rows and tokens of the decodes, which come first, and of all others. Where all decode, padding counts as well."""

    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    num_prefill_tokens: int


def split_decodes(
    query_lens: npt.NDArray[np.integer], threshold: int, *, uniform: bool = False, num_tokens: int | None = None
) -> DecodeSplit:
    """The border in a batch whose decodes come first: the first row of more than `threshold` tokens.

    query_lens  [R'] tokens of each row, 0 for padding rows
    uniform     decodes must have as many tokens as the first row: a kernel of one shape runs them
    num_tokens  Q', padding included, where it is more than the rows have
    """
    rows, total = query_lens.size, int(query_lens.sum())
    first = int(query_lens[0]) if rows else 0
    behind = (query_lens != first) & (query_lens != 0) if uniform else query_lens > threshold
    if first > threshold:
        return DecodeSplit(0, rows, 0, total)
    border = np.flatnonzero(behind)
    if not border.size:
        return DecodeSplit(rows, 0, total if num_tokens is None else num_tokens, 0)
    decodes = int(border[0])
    decode_tokens = int(query_lens[:decodes].sum())
    return DecodeSplit(decodes, rows - decodes, decode_tokens, total - decode_tokens)
