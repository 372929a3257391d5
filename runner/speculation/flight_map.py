"""Which rows of a step go on from tokens that only the device has, and what it needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import UsageError
from ...workloads.step import PLACEHOLDER
from ..handoff.plan import PreviousStep
from .expansion import IntArray

FIELDS = 5
"""Numbers of a row in the map."""


@dataclass(frozen=True, slots=True)
class FlightMap:
    """n rows whose last known token is in flight.

    rows       of this step; places  of their first tokens in the flat stream
    sources    rows of the step before, in whose slot the tokens are
    verified   drafts that the step before verified there; drafts  that this step verifies
    """

    rows: npt.NDArray[np.intp]
    places: npt.NDArray[np.intp]
    sources: npt.NDArray[np.intp]
    verified: IntArray
    drafts: IntArray

    @property
    def count(self) -> int:
        """n."""
        return int(self.rows.size)

    def write(self, table: IntArray) -> int:
        """Put the map into `table` [>= FIELDS * n], column by column. Returns how much of it is used."""
        columns: tuple[npt.NDArray[Any], ...] = (self.rows, self.places, self.sources, self.verified, self.drafts)
        for number, column in enumerate(columns):
            table[number * self.count : (number + 1) * self.count] = column
        return FIELDS * self.count


@dataclass(frozen=True, slots=True)
class FlownStep:
    """The step submitted last, and how many drafts it verified, row by row."""

    step: PreviousStep
    verified: IntArray


def map_flight(
    req_ids: tuple[str, ...], scheduled: IntArray, drafts: IntArray, input_ids: IntArray, before: FlownStep | None
) -> FlightMap | None:
    """The rows that go on from `before`; None when there are none.

    A row goes on exactly where its history ends with a placeholder: the token before its drafts. A request that was
    not in the step before has none, whatever drafts the scheduler thought of: its tokens are the host's.
    """
    places = np.cumsum(scheduled, dtype=np.intp) - 1 - drafts
    rows = np.flatnonzero((input_ids[np.maximum(places, 0)] == PLACEHOLDER) & (scheduled > 0))
    if not rows.size:
        return None
    if before is None:
        raise UsageError(f"request {req_ids[int(rows[0])]!r} goes on with a token in flight, but no step came before")
    if req_ids is before.step.req_ids:
        sources = rows
    else:
        sources = np.fromiter((before.step.row_of(req_ids[row]) for row in rows.tolist()), np.intp, rows.size)
    return FlightMap(rows, places[rows], sources, before.verified[sources], drafts[rows])
