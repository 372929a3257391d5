"""The batch of vLLM's newer runner: a request keeps one slot until it finishes or is preempted, and no row ever moves.

The order of a step is an index map over the slots: decodes first, then the other requests by how many tokens they have.
A request that sits a step out stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from ..config import RunnerConfig
from .block_tables import BlockTables
from .input_batch import InputBatch
from .order import step_order
from .request_state import CachedRequestState

IntArray = npt.NDArray[np.int32]
Slots = npt.NDArray[np.intp]


class SlotBatch(InputBatch):
    """`row_of` names the slot of every resident request, scheduled or not; `rows` the slots of the step's requests.

    `rows` and `req_ids` are new objects whenever membership or order changed, and the same ones while both stand.
    """

    leaves_when_unscheduled = False
    counts_in_states = False

    def __init__(
        self, config: RunnerConfig, block_tables: BlockTables, history: torch.Tensor | None = None
    ) -> None:
        self._rows: Slots = np.empty(0, dtype=np.intp)
        self._scheduled: IntArray = np.empty(0, dtype=np.int32)
        self._step_ids: tuple[str, ...] = ()
        self._decode_query_len = config.decode_query_len
        self._resident = object()
        self._known: tuple[tuple[str, ...], Slots] = ((), self._rows)
        super().__init__(config, block_tables, history)

    @property
    def num_reqs(self) -> int:
        """R, the requests of the step; residents may be more."""
        return self._rows.size

    @property
    def rows(self) -> Slots:
        """The index map [R]: the slot of each request, in the step's order."""
        return self._rows

    @property
    def epoch(self) -> object:
        """A new object whenever a slot changed hands."""
        return self._resident

    def columns_of(self, places: npt.NDArray[np.integer]) -> Slots:
        """The slots of the requests at `places` of the step."""
        slots: Slots = self._rows[places]
        return slots

    def add_request(self, state: CachedRequestState) -> int:
        """Give the request the smallest free slot."""
        self._resident = object()
        return super().add_request(state)

    def remove_request(self, req_id: str) -> int | None:
        """Free the request's slot; None when it has none."""
        self._resident = object()
        return super().remove_request(req_id)

    def condense(self) -> None:
        """Slots stay where they are; holes wait for the next request."""

    def begin_step(self) -> None:
        """Forget what was looked up for the step before: its slots may have changed hands."""
        super().begin_step()
        self._known = ((), self._known[1][:0])

    def residents_are(self, req_ids: tuple[str, ...], rows: Slots) -> None:
        """Remember it for the index map."""
        self._known = (req_ids, rows)

    def settle(self, num_scheduled: Mapping[str, int]) -> None:
        """Make the index map of a step. An id without a slot is left out: whoever asked for it will be told."""
        ids = tuple(num_scheduled)
        counts = np.fromiter(num_scheduled.values(), dtype=np.int32, count=len(ids))
        order = step_order(counts, self._decode_query_len)
        if order is not None:
            ids, counts = tuple(map(ids.__getitem__, order.tolist())), counts[order]
        self._scheduled = counts
        if ids == self.req_ids and not self.changed:
            return
        try:
            self._rows = self._look_up(ids)
        except KeyError:
            ids = tuple(req_id for req_id in ids if req_id in self.row_of)
            self._rows = np.asarray([self.row_of[req_id] for req_id in ids], dtype=np.intp)
        self._step_ids = ids
        self.block_tables.arrange(self._rows)
        self.changed = True

    def _look_up(self, ids: tuple[str, ...]) -> Slots:
        """The slots of `ids`. The residents, whom the merge has looked up already, mostly stand in front."""
        known_ids, known = self._known
        if ids[: len(known_ids)] != known_ids:
            known_ids, known = (), known[:0]
        rest = ids[len(known_ids) :]
        slots = np.fromiter(map(self.row_of.__getitem__, rest), dtype=np.intp, count=len(rest))
        return np.concatenate((known, slots))

    def scheduled(self, num_scheduled: Mapping[str, int]) -> IntArray:
        """[R] tokens of each request in the step's order."""
        return self._scheduled

    def _ids(self) -> tuple[str, ...]:
        return self._step_ids
