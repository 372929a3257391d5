"""What a launch is counted by: whole numbers over the counted steps of all its blocks, compared exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..columns import BoolArray, Columns, LongArray
from ..stats import total
from ..tables import Process
from .exact import EXACT

Count = int | float | Fraction
Counts = dict[str, Count | None]
_STEP_COLUMNS = {"syncs": "num_syncs", "launches": "num_launches", "h2d_count": "num_h2d"}


def counted(process: Process, numbers: LongArray) -> Counts:
    """Every metric of `EXACT` over the steps `numbers`; None where the recording does not say."""
    steps = _of_steps(process.rows("steps"), numbers)
    found: Counts = {metric: _sum(steps.ints(column)) for metric, column in _STEP_COLUMNS.items()}
    copies = _of_steps(process.rows("copies"), numbers)
    found["pageable_bytes"] = _pageable(copies)
    buffers = _of_steps(process.rows("buffers"), numbers)
    judged = buffers.matches("hazard", "none", "possible", "observed")
    found["hazards"] = int(buffers.matches("hazard", "possible", "observed").sum()) if judged.any() else None
    found["padding_share"] = _padding(process, numbers)
    return {metric: found[metric] for metric in EXACT}


def counted_tokens(process: Process, numbers: LongArray) -> int | None:
    """Tokens that the steps `numbers` computed, padding left out; None where the recording does not say."""
    return _sum(_of_steps(process.rows("steps"), numbers).ints("num_tokens"))


def _of_steps(rows: Columns, numbers: LongArray) -> Columns:
    step, in_step = rows.ints("step")
    return rows[in_step & np.isin(step, numbers)]


def _sum(column: tuple[LongArray, BoolArray]) -> int | None:
    values, valid = column
    return total(values[valid]) if len(valid) and valid.all() else None


def _pageable(copies: Columns) -> int | None:
    """Bytes copied from or to pageable host memory, asynchronous or not; 0 where every copy was pinned."""
    if not len(copies):
        return None
    size, known = copies.ints("size_bytes")
    mine = copies.matches("src_kind", "pageable") | copies.matches("dst_kind", "pageable")
    return total(size[mine]) if known[mine].all() else None


def _padding(process: Process, numbers: LongArray) -> Fraction | None:
    """Padding over all tokens computed; a step that replayed no graph computes its own tokens. None of no decision."""
    dispatch = _of_steps(process.rows("dispatch"), numbers)
    size, replayed = dispatch.ints("size")
    tokens, known = dispatch.ints("num_tokens")
    if not len(dispatch) or not known.all():
        return None
    computed = total(np.where(replayed, size, tokens))
    return Fraction(computed - total(tokens), computed) if computed else None
