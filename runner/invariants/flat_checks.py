"""Invariants 3 to 6 of the article: the flat stream adds up, is bounded, is positioned, and fits its page tables."""

from __future__ import annotations

import numpy as np

from ..inputs.step_inputs import IntArray
from .speculation_checks import drafts_fed
from .truth import IN_FLIGHT
from .view import StepView, first_difference, host


def token_total(view: StepView) -> str | None:
    """The scheduled counts add up to the real length of the flat stream."""
    inputs, wanted = view.inputs, view.delta.total_num_scheduled_tokens
    sizes = (inputs.num_tokens, inputs.req_indices.size, inputs.query_pos.size, inputs.positions.size)
    if set(sizes) != {wanted}:
        return f"{wanted} tokens are scheduled, but the flat arrays hold {sizes}"
    return first_difference(inputs.num_scheduled, view.expected_scheduled, "num_scheduled")


def query_boundaries(view: StepView) -> str | None:
    """query_start_loc starts at 0, never decreases and ends at Q, through the padding, on host and device."""
    inputs, common = view.inputs, view.common
    wanted = np.concatenate(([0], np.cumsum(view.expected_scheduled))).astype(np.int32)
    arrays = [("query_start_loc", inputs.query_start_loc), ("device query_start_loc", host(inputs.query_start_loc_gpu))]
    if common is not None:
        arrays.append(("padded query_start_loc", common.query_start_loc_cpu))
    for name, boundaries in arrays:
        broken = _boundary_fault(boundaries, inputs.num_tokens, name) or first_difference(
            boundaries[: wanted.size], wanted, name
        )
        if broken is not None:
            return broken
    last = np.maximum(wanted[1:] - 1, 0)
    return first_difference(inputs.logits_indices, last, "logits_indices") or first_difference(
        host(inputs.logits_indices_gpu[: inputs.num_reqs]), last, "device logits_indices"
    )


def _boundary_fault(boundaries: IntArray, num_tokens: int, name: str) -> str | None:
    if boundaries[0] != 0:
        return f"{name}[0] is {boundaries[0]}, not 0"
    falls = np.flatnonzero(np.diff(boundaries) < 0)
    if falls.size:
        at = int(falls[0])
        return f"{name} falls from {boundaries[at]} to {boundaries[at + 1]} at {at + 1}"
    if boundaries[-1] != num_tokens:
        return f"{name} ends at {boundaries[-1]}, not at Q = {num_tokens}"
    return None


def positions(view: StepView) -> str | None:
    """Each flat token stands where its request's computed length and its offset say, and is that token: the history's,
    or where that waits for a token in flight the one that the step before sampled for this very request.
    """
    inputs, wanted, rows = view.inputs, view.expected_positions, view.expected_rows
    columns = view.batch.columns_of(rows)
    tokens = view.batch.token_ids.values[columns, np.minimum(wanted, view.batch.token_ids.width - 1)]
    for place in np.flatnonzero(tokens == IN_FLIGHT).tolist():
        tokens[place] = view.in_flight.get(inputs.req_ids[int(rows[place])], IN_FLIGHT)
    tokens = drafts_fed(view, tokens)
    count = inputs.num_tokens
    return (
        first_difference(inputs.req_indices, rows, "req_indices")
        or first_difference(inputs.positions, wanted, "positions")
        or first_difference(host(inputs.positions_gpu[:count]), view.device_positions, "device positions")
        or first_difference(host(inputs.input_ids[:count]), tokens, "device input_ids")
    )


def seq_lens_capacity(view: StepView) -> str | None:
    """A sequence reaches exactly to this step's last token, and its blocks can address that far."""
    inputs, num_reqs = view.inputs, view.inputs.num_reqs
    wanted = view.expected_computed + view.expected_scheduled
    on_device = host(inputs.seq_lens_gpu)
    broken = first_difference(inputs.seq_lens, wanted, "seq_lens") or first_difference(
        on_device[:num_reqs], wanted - view.rejected, "device seq_lens"
    )
    if broken is not None:
        return broken
    for index, group in enumerate(view.groups):
        if not group.has_slots:
            continue
        capacity = np.asarray([len(truth.blocks[index]) for truth in view.truths], dtype=np.int64) * group.block_size
        short = np.flatnonzero(wanted > capacity)
        if short.size:
            row = int(short[0])
            return f"{inputs.req_ids[row]!r} is {wanted[row]} tokens long, but its blocks hold {capacity[row]}"
    if on_device[num_reqs:].any() or (view.common is not None and view.common.seq_lens_cpu[num_reqs:].any()):
        return "a padding row has a length"
    return None
