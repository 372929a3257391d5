"""Faults of block tables and packed inputs on their way to the device."""

from __future__ import annotations

import numpy as np
from stepscope.runner.buffers.device_tables import ByIndexMap, DeviceTables
from stepscope.runner.buffers.small_inputs import PackedField
from stepscope.runner.buffers.staged import StagedTable
from stepscope.runner.buffers.table_diffs import DiffTable, RowDiffs
from stepscope.runner.buffers.transfers import DirtyTable
from stepscope.runner.state import block_table
from stepscope.runner.state.block_table import BlockTable
from stepscope.runner.state.block_tables import BlockTables

from .arrangements import DEDICATED, HYBRID, PINNED, SLOTS
from .mutants_of_rows import change

STAGED = {"block_table_commit": "staged"}
DIRTY = {"block_table_commit": "dirty_rows"}
DOUBLE = {"device_buffers": "double"} | DEDICATED
PADDED = {"graph_mode": "full", "capture_sizes": (8, 16, 24, 40)}


def appended_rows_not_told(patch):
    """Appended blocks reach the mirror, and nobody sends them."""

    def make(right):
        return lambda self, row, start: None if start else right(self, row, start)

    change(patch, BlockTable, "_touch", make)


def single_blocks_not_told(patch):
    patch.setattr(block_table, "_FEW", 0)
    for owner in (StagedTable, DirtyTable, DiffTable):
        patch.setattr(owner, "touch_each", lambda self, rows, starts, ends: None)


def never_dirty(patch):
    """With order `skip`: a table that changed is taken for clean."""
    patch.setattr(BlockTables, "dirty", property(lambda self: False))


def dirty_in_one_set_only(patch):
    """What was sent to one set of device buffers is taken to be in both."""

    def make(right):
        def short(self):
            rows = right(self)
            self._lacking[:, rows] = False
            return rows

        return short

    change(patch, DirtyTable, "take", make)


def set_of_the_step_before(patch):
    """The copies go to one set of device buffers, the tables' to the other."""

    def make(right):
        def other(self, num_reqs, columns):
            sets = self._transfer.parts[0]._sets
            sets.current = (sets.current + 1) % sets.count
            try:
                return right(self, num_reqs, columns)
            finally:
                sets.current = (sets.current + 1) % sets.count

        return other

    change(patch, DeviceTables, "commit", make)




def rows_given_up_not_sent(patch):
    """Rows behind the batch keep the blocks of requests that are gone, and padding reads them."""

    def make(right):
        def forgetful(self, num_rows, changed_bytes=None):
            self._rows_there = [0] * len(self._rows_there)
            return right(self, num_rows, changed_bytes)

        return forgetful

    change(patch, StagedTable, "publish", make)


def ring_slots_not_brought_up(patch):
    """A slot of the ring is sent with what it held when it was last used."""

    change(patch, StagedTable, "_fill", lambda right: lambda self, slot, num_rows: right(self, slot, min(num_rows, 2)))


def diff_forgotten_after_a_resume(patch):
    """A row that comes back as long as it was is taken for the same."""

    def make(right):
        def trusting(self):
            before = self._there.copy()
            diffs = right(self)
            changed = (diffs.starts > 0) | (diffs.starts + diffs.counts != before[diffs.rows]) | (diffs.counts == 0)
            kept = RowDiffs(*(field[changed] for field in diffs[:4]), 0)
            return kept._replace(num_ids=int(kept.counts.sum()))

        return trusting

    change(patch, DiffTable, "take", make)


def last_touch_wins(patch):
    """Of a row that moved and was touched again only what was touched last is sent."""

    def make(right):
        def latest(self, row, start, end):
            right(self, row, start, end)
            self._first[row] = start

        return latest

    change(patch, DiffTable, "touch", make)


def diff_without_nulls(patch):
    """The blocks behind a row that became shorter stay on the device."""
    change(patch, DiffTable, "take", lambda right: lambda self: _without_nulls(right(self)))


def _without_nulls(diffs: RowDiffs) -> RowDiffs:
    return diffs._replace(nulls=np.zeros_like(diffs.nulls))


def diff_one_place_late(patch):
    change(patch, DiffTable, "take", lambda right: lambda self: _late(right(self)))


def _late(diffs: RowDiffs) -> RowDiffs:
    return diffs._replace(starts=np.minimum(diffs.starts + 1, 19))


def bulk_not_sent(patch):
    """Rows that change in bulk are marked as sent, and are not."""
    patch.setattr(StagedTable, "publish", lambda self, num_rows, changed_bytes=None: 0)


def rows_behind_the_map_stay(patch):
    """The gather ends with the batch: rows of the longer step before it stay."""

    def make(right):
        def short(self, num_reqs, columns, news):
            self._rows_there = 0
            return right(self, num_reqs, columns, news)

        return short

    change(patch, ByIndexMap, "send", make)


def packed_fields_one_entry_off(patch):
    def make(right):
        def shifted(self, whole, field, begin):
            right(self, whole, field, begin)
            if field.name == "positions":
                self.gpus = tuple(gpu.roll(1) for gpu in self.gpus)

        return shifted

    change(patch, PackedField, "__init__", make)


MUTANTS = [
    ("appended rows not told", appended_rows_not_told, STAGED, "slot_ownership"),
    ("single blocks not told", single_blocks_not_told, PINNED, "slot_ownership"),
    ("never dirty", never_dirty, {"commit_order": "skip"}, "slot_ownership"),
    ("dirty in one set only", dirty_in_one_set_only, DIRTY | DOUBLE, "slot_ownership"),
    ("tables of the other set", set_of_the_step_before, DOUBLE, "slot_ownership"),
    ("rows given up not sent", rows_given_up_not_sent, PADDED, "slot_ownership"),
    ("ring slots not brought up", ring_slots_not_brought_up, PINNED, "slot_ownership"),
    ("diff forgotten after a resume", diff_forgotten_after_a_resume, STAGED, "slot_ownership"),
    ("last touch wins", last_touch_wins, STAGED | HYBRID, "slot_ownership"),
    ("diff without nulls", diff_without_nulls, STAGED, "slot_ownership"),
    ("diff one place late", diff_one_place_late, STAGED | SLOTS, "slot_ownership"),
    ("bulk not sent", bulk_not_sent, DIRTY, "slot_ownership"),
    ("rows behind the map stay", rows_behind_the_map_stay, STAGED | SLOTS, "slot_ownership"),
    ("packed fields one entry off", packed_fields_one_entry_off, {"h2d_packing": "packed"}, "positions"),
]
