"""Which of this step's input ids are still on the device only, and where the step before has them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import PLACEHOLDER
from ..inputs.flat_indices import FlatIndices
from ..inputs.step_inputs import IntArray
from .outputs import OutputSlot

Places = npt.NDArray[np.intp]


@dataclass(slots=True)
class PreviousStep:
    """The step submitted last: whose tokens its slot holds, row by row. A row that showed no token has none to give."""

    step: int
    req_ids: tuple[str, ...]
    slot: OutputSlot
    shown: npt.NDArray[np.bool_]  # [rows]
    _row_of: dict[str, int] = field(default_factory=dict)

    def row_of(self, req_id: str) -> int:
        """Row of a request that was sampled in that step. Raises UsageError for one that was not."""
        if not self._row_of:  # in a steady batch nobody asks
            self._row_of.update(zip(self.req_ids, range(len(self.req_ids)), strict=True))
        row = self._row_of.get(req_id)
        if row is None or not self.shown[row]:
            raise UsageError(
                f"request {req_id!r} goes on with a token in flight, but not of step {self.step}, the one before:"
                " collect earlier steps before a request comes back that sat one out"
            )
        return row


@dataclass(frozen=True, slots=True)
class TokensWanted:
    """`places` in this step's flat input ids, ascending, and the `rows` of the step before that hold their tokens.

    `in_place`: row i's token goes to place i, so that the first tokens of both steps are the same range.
    """

    places: Places
    rows: Places
    in_place: bool

    @property
    def count(self) -> int:
        """How many input ids come from the device."""
        return int(self.places.size)


def tokens_wanted(
    req_ids: tuple[str, ...], scheduled: IntArray, flat: FlatIndices, input_ids: IntArray, previous: PreviousStep | None
) -> TokensWanted | None:
    """What this step takes from `previous`; None when the host has every token.

    A token is wanted exactly where the history holds a placeholder, and that is the last token of a request's chunk.
    The history is asked and not the list of common requests: a request that was preempted in between is in both steps,
    and yet starts over with the tokens that the host has.
    """
    if flat.uniform:
        rows = places = np.flatnonzero(input_ids[: flat.num_tokens] == PLACEHOLDER)
    else:
        last = np.cumsum(scheduled, dtype=np.intp) - 1
        missing = input_ids[np.maximum(last, 0)] == PLACEHOLDER
        rows = np.flatnonzero(missing & (scheduled > 0) if flat.idle else missing)
        places = last[rows]
    if not rows.size:
        return None
    if previous is None:
        first = req_ids[int(rows[0])]
        raise UsageError(f"request {first!r} goes on with a token in flight, but no step came before this one")
    if req_ids is previous.req_ids:
        sources = rows
    else:
        sources = np.fromiter((previous.row_of(req_ids[row]) for row in rows.tolist()), np.intp, rows.size)
    in_place = bool(places[-1] == rows.size - 1 and np.array_equal(places, sources))
    return TokensWanted(places, sources, in_place)
