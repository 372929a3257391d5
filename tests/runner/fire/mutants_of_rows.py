"""Faults of the batch: a column forgotten when rows change, a difference merged in the wrong way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from stepscope.runner.state import cached_merge, slot_batch
from stepscope.runner.state.block_tables import BlockTables
from stepscope.runner.state.cached_merge import CachedMerge
from stepscope.runner.state.input_batch import InputBatch
from stepscope.runner.state.slot_batch import SlotBatch
from stepscope.runner.state.update import WorkerState

from .arrangements import SLOTS

COLUMNS = (
    "token_ids", "id_column", "num_prompt", "num_computed", "temperature", "top_k", "top_p", "generators", "forbidden",
    "block_tables",
)  # fmt: skip
REORDER = {"reorder": "decode_first"}


def change(patch, owner, name, make):
    """Replace `name` by what `make` makes of the original."""
    patch.setattr(owner, name, make(getattr(owner, name)))


def without(verb: str, column: str):
    """The batch's `verb` goes over all columns but one."""

    def plant(patch) -> None:
        def make(right):
            def forgetful(self, *rows):
                columns, number = self.columns, COLUMNS.index(column)
                self.columns = columns[:number] + columns[number + 1 :]
                try:
                    return right(self, *rows)
                finally:
                    self.columns = columns

            return forgetful

        change(patch, InputBatch, verb, make)

    return plant


def append_on_resume(patch):
    """The new blocks of a resumed request behind its old ones."""
    change(patch, CachedMerge, "_merge_blocks", lambda right: lambda self, state, row, cached, index, step: right(
        self, state, row, replace(cached, resumed_req_ids=frozenset()), index, step
    ))  # fmt: skip


def blocks_appended_twice(patch):
    def make(right):
        def twice(self, row, block_ids):
            right(self, row, block_ids)
            right(self, row, block_ids)

        return twice

    change(patch, BlockTables, "append_row", make)


def single_blocks_not_appended(patch):
    patch.setattr(BlockTables, "append_each", lambda self, rows, ids: None)


def blocks_not_in_the_state(patch):
    """A row gets its new blocks; the request's own list, from which it comes back later, does not."""

    def make(right):
        def forgetful(self, state, row, cached, index, step):
            kept = tuple(ids[:] for ids in state.block_ids)
            right(self, state, row, cached, index, step)
            if state.req_id not in cached.resumed_req_ids:
                state.block_ids = kept

        return forgetful

    change(patch, CachedMerge, "_merge_blocks", make)


def counts_of_residents_stand_still(patch):
    def make(right):
        def stale(self, cached, rows, states, step):
            before = self.batch.num_computed[rows].copy()
            right(self, cached, rows, states, step)
            self.batch.num_computed[rows] = before

        return stale

    change(patch, CachedMerge, "_merge_residents", make)


def rows_not_packed(patch):
    patch.setattr(InputBatch, "condense", lambda self: None)


def slots_kept_by_the_preempted(patch):
    """A preempted request keeps its slot, and comes back into it with the blocks that it had."""

    def make(right):
        def blind(self, delta):
            right(self, replace(delta, preempted_req_ids=(), cached=replace(delta.cached, resumed_req_ids=frozenset())))

        return blind

    change(patch, WorkerState, "_remove_unscheduled", make)


def order_of_the_step_before(patch):
    """The index map is made anew only when membership changes, not when the order does."""

    def make(right):
        def stale(self, num_scheduled):
            known = self._step_ids
            right(self, num_scheduled)
            if set(known) == set(self._step_ids):
                self._step_ids = known

        return stale

    change(patch, SlotBatch, "settle", make)


def slots_by_place(patch):
    """Places of the step are taken for slots."""
    patch.setattr(SlotBatch, "columns_of", lambda self, places: places)


def map_of_rows_not_sent(patch):
    """The device's tables are not told of another order."""
    patch.setattr(BlockTables, "arrange", lambda self, rows: None if self.device._order._sent[0] is not None else (
        self.device.arrange(rows)
    ))  # fmt: skip


def residents_of_the_step_before(patch):
    """Slots that were looked up for one step serve the next, although they have changed hands."""

    def make(right):
        def eager(self, ids):
            known_ids, known = self._known
            if len(known_ids) == len(ids):
                return known
            return right(self, ids)

        return eager

    change(patch, slot_batch.SlotBatch, "_look_up", make)


def metadata_not_refreshed_by_swaps(patch):
    def make(right):
        def silent(self, first, second):
            before = self.changed
            right(self, first, second)
            self.changed = before

        return silent

    change(patch, InputBatch, "swap_rows", make)


def stale_sampling_metadata(patch):
    """Who sits in which row is brought up to date, how he samples is not."""

    def make(right):
        def lazy(self):
            before = self.sampling if hasattr(self, "sampling") else None
            after = right(self)
            if before is not None and before.num_reqs == after.num_reqs:
                self.sampling = before
            return self.sampling

        return lazy

    change(patch, InputBatch, "refresh_metadata", make)


def history_of_the_away_not_taken(patch):
    """A request comes back with blocks and counts, and with a history that lost what was in flight."""
    patch.setattr(cached_merge, "_refresh_history", lambda state, cached: state.replace_history(
        cached.all_token_ids.get(state.req_id, np.empty(0, dtype=np.int32))[:-1]
    ))  # fmt: skip


def generator_of_the_row(patch):
    """A stream belongs to the row and not to the request: whoever comes next draws from it."""

    def make(right):
        def inherited(self, state):
            before = list(self.generators.values)
            row = right(self, state)
            if before[row] is None and self._former.get(row) is not None:
                self.generators.values[row] = self._former[row]
            self._former[row] = self.generators.values[row]
            return row

        return inherited

    patch.setattr(InputBatch, "_former", {}, raising=False)
    change(patch, InputBatch, "add_request", make)


_MOVES = {
    "token_ids": "row_ownership", "id_column": "an empty row", "num_prompt": "row_ownership",
    "num_computed": "row_ownership",
    "temperature": "row_ownership", "top_k": "row_ownership", "top_p": "row_ownership", "generators": "row_ownership",
    "forbidden": "text", "block_tables": "row_ownership",
}  # fmt: skip
_SWAPS = _MOVES | {"id_column": "row_ownership"}
_CLEARS = {
    "id_column": "an empty row", "generators": "row_ownership", "forbidden": "text", "block_tables": "row_ownership",
}  # fmt: skip

MUTANTS = [
    *((f"move without {column}", without("_move", column), {}, killer) for column, killer in _MOVES.items()),
    *((f"swap without {column}", without("swap_rows", column), REORDER, killer) for column, killer in _SWAPS.items()),
    *((f"clear without {column}", without("remove_request", column), {}, check) for column, check in _CLEARS.items()),
    ("append on resume", append_on_resume, {}, "row_ownership"),
    ("blocks appended twice", blocks_appended_twice, {}, "row_ownership"),
    ("single blocks not appended", single_blocks_not_appended, {}, "row_ownership"),
    ("blocks not in the state", blocks_not_in_the_state, {}, "row_ownership"),
    ("counts of residents stand still", counts_of_residents_stand_still, {}, "row_ownership"),
    ("rows not packed", rows_not_packed, {}, "an empty row"),
    ("slots kept by the preempted", slots_kept_by_the_preempted, SLOTS, "row_ownership"),
    ("order of the step before", order_of_the_step_before, SLOTS, "row_bijection"),
    ("slots by place", slots_by_place, SLOTS, "row_ownership"),
    ("map of rows not sent", map_of_rows_not_sent, SLOTS, "slot_ownership"),
    ("residents of the step before", residents_of_the_step_before, SLOTS, "row_bijection"),
    ("metadata not refreshed by swaps", metadata_not_refreshed_by_swaps, REORDER, "row_bijection"),
    ("stale sampling metadata", stale_sampling_metadata, {}, "row_ownership"),
    ("history of the away not taken", history_of_the_away_not_taken, {}, "row_ownership"),
    ("generator of the row", generator_of_the_row, {}, "row_ownership"),
]
