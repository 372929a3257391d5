"""The columnar view of the requests that run: one row each, rows packed in [0, num_reqs).

A row number is a short-lived address: it holds until the batch's membership changes. Everything that belongs to a row
is declared as a column, and clear, move and swap go over all declared columns, so none can be forgotten.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from ...errors import UsageError
from ..buffers.device_tables import Rows
from ..config import RunnerConfig
from .block_tables import BlockTables
from .columns import MaskColumn, ObjectColumn, PrefixColumn, RowColumn, ScalarColumn
from .request_state import CachedRequestState
from .sampling_metadata import SamplingMetadata
from .seeded_stream import SeededStream

IntArray = npt.NDArray[np.int32]


class InputBatch:
    """Pre-allocated columns of up to `max_num_seqs` rows.

    token_ids     [rows, max_model_len] int32, in `history` if given; lengths = num_tokens (prompt and outputs known)
    num_prompt, num_computed  [rows] int32;  temperature, top_p [rows] float32;  top_k [rows] int32
    id_column, generators     [rows] objects;  forbidden  lazily [rows, vocab] bool
    `changed` is True from the first change of membership until `refresh_metadata`.
    `moves` lists (from, to) of the rows moved by condense and swap since `begin_step`.
    """

    leaves_when_unscheduled = True
    """Whether a request that sits a step out gives its row up."""
    counts_in_states = True
    """Whether a resident request's state counts its computed tokens as well as its row does."""

    def __init__(
        self, config: RunnerConfig, block_tables: BlockTables, history: torch.Tensor | None = None
    ) -> None:
        rows = config.max_num_seqs
        self.max_num_seqs = rows
        self.block_tables = block_tables
        self.token_ids = PrefixColumn(rows, config.max_model_len, torch.int32, history)
        self.id_column: ObjectColumn[str] = ObjectColumn(rows)
        self._num_prompt = ScalarColumn(rows, np.int32)
        self._num_computed = ScalarColumn(rows, np.int32)
        self._temperature = ScalarColumn(rows, np.float32)
        self._top_k = ScalarColumn(rows, np.int32)
        self._top_p = ScalarColumn(rows, np.float32, empty=1.0)
        self.generators: ObjectColumn[SeededStream] = ObjectColumn(rows)
        self.forbidden = MaskColumn(rows)
        self.columns: tuple[RowColumn, ...] = (
            self.token_ids,
            self.id_column,
            self._num_prompt,
            self._num_computed,
            self._temperature,
            self._top_k,
            self._top_p,
            self.generators,
            self.forbidden,
            block_tables,
        )
        self.num_prompt: npt.NDArray[Any] = self._num_prompt.values
        self.num_computed: npt.NDArray[Any] = self._num_computed.values
        self.temperature: npt.NDArray[Any] = self._temperature.values
        self.top_k: npt.NDArray[Any] = self._top_k.values
        self.top_p: npt.NDArray[Any] = self._top_p.values
        self.num_tokens = self.token_ids.lengths
        self._any_seeded = False  # whether anybody has had a stream since the last look
        self.row_of: dict[str, int] = {}
        self._holes: list[int] = []
        self.moves: list[tuple[int, int]] = []
        self.changed = True
        self.req_ids: tuple[str, ...] = ()
        self.sampling = self.refresh_metadata()

    @property
    def num_reqs(self) -> int:
        """R, the requests of the step."""
        return len(self.row_of)

    @property
    def rows(self) -> Rows:
        """Where the step's requests live in the columns, in the step's order: here packed in front."""
        return slice(0, len(self.row_of))

    @property
    def epoch(self) -> object:
        """A new object whenever a row may have changed hands; compared by identity."""
        return self.sampling

    def begin_step(self) -> None:
        """Forget the moves of the step before."""
        self.moves.clear()

    def add_request(self, state: CachedRequestState) -> int:
        """Give the request the smallest empty row, or the next one; spread its state over the columns."""
        row = heapq.heappop(self._holes) if self._holes else len(self.row_of)
        if row >= self.max_num_seqs:
            raise UsageError(f"request {state.req_id!r}: all {self.max_num_seqs} rows are taken; raise max_num_seqs")
        self.row_of[state.req_id] = row
        self.id_column.values[row] = state.req_id
        self.token_ids.write(row, state.prompt_token_ids, state.output_token_ids)
        self.num_prompt[row] = state.num_prompt_tokens
        self.num_computed[row] = state.num_computed_tokens
        self.temperature[row] = state.sampling.temperature
        self.top_k[row] = state.sampling.top_k
        self.top_p[row] = state.sampling.top_p
        if state.generator is not None:
            self.generators.values[row] = state.generator
            self._any_seeded = True
        self.block_tables.add_row(row, state.block_ids)
        self.changed = True
        return row

    def remove_request(self, req_id: str) -> int | None:
        """Empty the request's row and leave a hole for `condense`; None when it has no row."""
        row = self.row_of.pop(req_id, None)
        if row is None:
            return None
        for column in self.columns:
            column.clear(row)
        heapq.heappush(self._holes, row)
        self.changed = True
        return row

    def residents_are(self, req_ids: tuple[str, ...], rows: npt.NDArray[np.intp]) -> None:
        """Somebody has looked up where these live, for whoever is interested until the step is settled."""

    def settle(self, num_scheduled: Mapping[str, int]) -> None:
        """Membership is complete: put the requests of the step in order; here by packing the rows."""
        self.condense()

    def scheduled(self, num_scheduled: Mapping[str, int]) -> IntArray:
        """[R] tokens of each request in the step's order; good behind `refresh_metadata`."""
        counts = map(num_scheduled.__getitem__, self.req_ids)
        return np.fromiter(counts, dtype=np.int32, count=len(self.req_ids))

    def condense(self) -> None:
        """Move the last live row into the smallest hole until rows are packed again.

        Nothing moves when as many requests came as went: the newcomers took the holes.
        """
        end = self.num_reqs + len(self._holes)
        while self._holes:
            last = end - 1
            if self.id_column.values[last] is None:
                self._holes.remove(last)
                heapq.heapify(self._holes)
            else:
                self._move(last, heapq.heappop(self._holes))
            end -= 1

    def pass_windows(self) -> None:
        """Null the blocks that the rows' sliding windows have left behind."""
        if self.block_tables.windowed:
            self.block_tables.pass_windows(self.rows, self.num_computed[self.rows])

    def swap_rows(self, first: int, second: int) -> None:
        """Exchange two live rows."""
        for column in self.columns:
            column.swap(first, second)
        for row in (first, second):
            self.row_of[self._id_at(row)] = row
        self.moves.extend(((first, second), (second, first)))
        self.changed = True

    def allow_only(self, req_id: str, token_ids: npt.ArrayLike, vocab_size: int) -> None:
        """Restrict a live request to `token_ids` of a vocabulary of `vocab_size`."""
        self.forbidden.allow_only(self.row_of[req_id], token_ids, vocab_size)
        self.changed = True

    def append_tokens(self, rows: list[int] | npt.NDArray[np.intp], token_ids: list[int] | int) -> None:
        """Write one token behind the history of each of `rows`, which are distinct."""
        if not len(rows):
            return
        ends = self.num_tokens[rows]
        if ends.max() >= self.token_ids.width:
            full = self._id_at(rows[int(ends.argmax())])
            raise UsageError(f"request {full!r}: no room for a token behind max_model_len = {self.token_ids.width}")
        self.token_ids.values[rows, ends] = token_ids
        self.num_tokens[rows] = ends + 1

    def append_runs(self, rows: list[int], token_ids: list[int]) -> None:
        """Write each of `token_ids` behind the history of its row; a row's tokens stand together."""
        if not rows:
            return
        distinct, first, counts = np.unique(rows, return_index=True, return_counts=True)
        ends = self.num_tokens[distinct] + counts
        if ends.max() > self.token_ids.width:
            full = self._id_at(int(distinct[ends.argmax()]))
            raise UsageError(f"request {full!r}: no room for a token behind max_model_len = {self.token_ids.width}")
        offsets = np.arange(len(rows))
        offsets[:] -= np.repeat(np.sort(first), counts[np.argsort(first)])
        self.token_ids.values[rows, self.num_tokens[rows] + offsets] = token_ids
        self.num_tokens[distinct] = ends

    def columns_of(self, places: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Where the requests at `places` of the step live in the columns: row by row here."""
        return places

    def refresh_metadata(self) -> SamplingMetadata:
        """Bring what is derived from membership up to date. The old object stays when nothing changed."""
        if not self.changed:
            return self.sampling
        self.changed = False
        self.req_ids = self._ids()
        rows, num_reqs = self.rows, len(self.req_ids)
        temperature = self.temperature[rows].copy()
        masks = self.forbidden.values
        forbidden = masks[rows].copy() if masks is not None and self.forbidden.in_use else None
        self.sampling = SamplingMetadata(
            num_reqs, temperature, self.top_k[rows].copy(), self.top_p[rows].copy(), self._seeded(num_reqs), forbidden,
            all_greedy=not np.count_nonzero(temperature),
        )  # fmt: skip
        return self.sampling

    def _ids(self) -> tuple[str, ...]:
        """The requests of the step in its order."""
        ids = self.id_column.values[: self.num_reqs]
        assert None not in ids, "a row inside the batch is empty"
        return tuple(cast("list[str]", ids))

    def _seeded(self, num_reqs: int) -> dict[int, SeededStream]:
        """By place in the step, the requests with a random stream of their own: mostly nobody."""
        streams = self.generators.values
        if not self._any_seeded:
            return {}
        self._any_seeded = streams.count(None) < len(streams)
        columns = self.columns_of(np.arange(num_reqs)).tolist()
        found = ((place, streams[column]) for place, column in enumerate(columns))
        return {place: stream for place, stream in found if stream is not None}

    def _id_at(self, row: int) -> str:
        req_id = self.id_column.values[row]
        assert req_id is not None, f"row {row} inside the batch is empty"
        return req_id

    def _move(self, source: int, target: int) -> None:
        for column in self.columns:
            column.move(source, target)
        self.row_of[self._id_at(target)] = target
        self.moves.append((source, target))
