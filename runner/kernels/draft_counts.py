"""The Triton kernel behind the correction of rejected drafts on the device: one program a row in flight.

Importing this module needs Triton. What it does is said in plain words by speculation/device_correction.py.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _correction_kernel(
    table, sampled, proposed, input_ids, positions, seq_lens, drafts, count, k, block: tl.constexpr
):
    flight = tl.program_id(0)
    row = tl.load(table + flight)
    place = tl.load(table + count + flight)
    source = tl.load(table + 2 * count + flight).to(tl.int64)
    verified = tl.load(table + 3 * count + flight)
    num_drafts = tl.load(table + 4 * count + flight)
    at = tl.arange(0, block)
    tokens = tl.load(sampled + source * (k + 1) + at, mask=at <= k, other=-1)
    num_sampled = tl.sum((tokens >= 0).to(tl.int32))
    rejected = verified + 1 - num_sampled
    last = tl.sum(tl.where(at == num_sampled - 1, tokens, 0))
    own = tl.load(proposed + source * k + at, mask=at < num_drafts, other=0)
    tl.store(input_ids + place + 1 + at, tl.maximum(own, 0), mask=at < num_drafts)
    tl.store(drafts + row.to(tl.int64) * k + at, own, mask=at < num_drafts)
    tl.store(input_ids + place, last)
    stands = tl.load(positions + place + at, mask=at <= num_drafts, other=0)
    tl.store(positions + place + at, stands - rejected, mask=at <= num_drafts)
    tl.store(seq_lens + row, tl.load(seq_lens + row) - rejected)


def correct_counts(
    table: torch.Tensor, sampled: torch.Tensor, proposed: torch.Tensor, input_ids: torch.Tensor,
    positions: torch.Tensor, seq_lens: torch.Tensor, drafts: torch.Tensor, count: int,
) -> None:  # fmt: skip
    """Correct `count` rows: table [5 * count], sampled [rows, k + 1] and proposed [rows, k] of the step before."""
    kernel: Any = _correction_kernel
    k = proposed.shape[1]
    kernel[(count,)](
        table, sampled, proposed, input_ids, positions, seq_lens, drafts, count, k,
        block=triton.next_power_of_2(k + 1),
    )  # fmt: skip
