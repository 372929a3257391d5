"""Block tables on the device under random lives of rows, against a dictionary of lists."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.device_sets import DeviceSets
from stepscope.runner.buffers.device_tables import ByIndexMap
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.growing import grown_capacity
from stepscope.runner.buffers.make_tables import TableFactory
from stepscope.runner.buffers.road import Road
from stepscope.runner.buffers.table_diffs import DiffTable
from stepscope.runner.buffers.transfers import DirtyTable, Scatter
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.state.block_table import BlockTable

ROWS, WIDTHS = 6, (8, 5)
COMMITS = ("full", "dirty_rows", "staged")


class Bench:
    """Tables of two groups on the cpu device, and the truth: for each row and group a list of blocks."""

    def __init__(self, commit, order="in_place", sets=1):
        self.ledger = Ledger()
        self.device = CpuDevice(self.ledger)
        self.road = Road(sets=DeviceSets(sets))
        buffers = BufferFactory(self.device, self.ledger, road=self.road)
        factory = TableFactory(self.device, buffers, ("a", "b"), (ROWS, WIDTHS), "compute")
        self.tables = factory.make(commit, order)
        self.groups = [BlockTable(part) for part in self.tables.parts]
        self.truth = [[[] for _ in WIDTHS] for _ in range(ROWS)]
        self.next_block = 1

    def add(self, row, counts):
        for group, (table, count) in enumerate(zip(self.groups, counts, strict=True)):
            blocks = list(range(self.next_block, self.next_block + count))
            self.next_block += count
            table.clear(row)
            table.add_row(row, blocks)
            self.truth[row][group] = blocks

    def append(self, row, group):
        if len(self.truth[row][group]) < WIDTHS[group]:
            self.groups[group].append_row(row, [self.next_block])
            self.truth[row][group].append(self.next_block)
            self.next_block += 1

    def append_each(self, rows):
        for group, table in enumerate(self.groups):
            room = [row for row in rows if len(self.truth[row][group]) < WIDTHS[group]]
            if room:
                blocks = [self.next_block + i for i in range(len(room))]
                self.next_block += len(room)
                table.append_each(np.asarray(room, dtype=np.intp), blocks)
                for row, block in zip(room, blocks, strict=True):
                    self.truth[row][group].append(block)

    def clear(self, row):
        for table in self.groups:
            table.clear(row)
        self.truth[row] = [[] for _ in WIDTHS]

    def move(self, source, target):
        if source != target:
            for table in self.groups:
                table.move(source, target)
            self.truth[target], self.truth[source] = self.truth[source], [[] for _ in WIDTHS]

    def swap(self, first, second):
        for table in self.groups:
            table.swap(first, second)
        self.truth[first], self.truth[second] = self.truth[second], self.truth[first]

    def commit(self, num_reqs):
        """One step; returns what it would read."""
        self.road.sets.advance()
        copies = self.tables.commit(num_reqs, max(table.columns_used for table in self.groups))
        self.road.arrived()
        return copies

    def seen(self, group):
        return self.tables.pools[self.road.sets.current].tables[group].tolist()

    def expected(self, group, rows):
        lists = [self.truth[row][group] for row in rows]
        return [blocks + [0] * (WIDTHS[group] - len(blocks)) for blocks in lists]


def null_rows(group, count):
    return [[0] * WIDTHS[group]] * count


rows_of = st.integers(0, ROWS - 1)
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), rows_of, st.tuples(*(st.integers(0, width) for width in WIDTHS))),
    st.tuples(st.just("append"), rows_of, st.integers(0, 1)),
    st.tuples(st.just("append_each"), st.lists(rows_of, unique=True, min_size=1)),
    st.tuples(st.just("clear"), rows_of),
    st.tuples(st.just("move"), rows_of, rows_of),
    st.tuples(st.just("swap"), rows_of, rows_of),
)
STEPS = st.lists(
    st.tuples(st.lists(OPERATIONS, max_size=5), st.permutations(range(ROWS)), st.integers(0, ROWS)), max_size=8
)


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("commit", COMMITS)
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_tables_in_place_are_the_rows_of_the_batch_and_null_behind_it(commit, sets, steps):
    bench = Bench(commit, sets=sets)
    for operations, _, num_reqs in steps:
        for name, *arguments in operations:
            getattr(bench, name)(*arguments)
        for row in range(num_reqs, ROWS):  # a persistent batch has nobody behind its requests
            bench.clear(row)
        bench.commit(num_reqs)
        for group in range(len(WIDTHS)):
            assert bench.seen(group) == bench.expected(group, range(ROWS))


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("commit", COMMITS)
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_tables_by_index_map_follow_the_steps_order(commit, sets, steps):
    bench = Bench(commit, "index_map", sets)
    for operations, order, num_reqs in steps:
        for name, *arguments in operations:
            getattr(bench, name)(*arguments)
        slots = np.asarray(order[:num_reqs], dtype=np.intp)
        bench.tables.arrange(slots)
        bench.commit(num_reqs)
        for group in range(len(WIDTHS)):
            assert bench.seen(group) == bench.expected(group, slots.tolist()) + null_rows(group, ROWS - num_reqs)


def test_only_new_ids_travel_and_one_kernel_serves_all_groups():
    # GIVEN six rows that are on the device
    bench = Bench("staged")
    for row in range(ROWS):
        bench.add(row, (3, 2))
    bench.commit(ROWS)
    bench.ledger.take()
    # WHEN two rows get a block in either group
    bench.append_each([1, 4])
    bench.commit(ROWS)
    # THEN four differences of one id each travel in one copy, and are put in place by one launch
    assert [row[2] for row in bench.ledger.rows["copies"]] == [4 * (6 + 1) * 4]
    assert [row[2] for row in bench.ledger.rows["spans"]] == ["apply_diffs"]
    assert bench.seen(0) == bench.expected(0, range(ROWS))
    # AND a step without news copies nothing
    bench.ledger.take()
    assert bench.commit(ROWS) == ()
    assert not bench.ledger.rows["copies"]
    assert not bench.ledger.rows["spans"]


def test_an_unchanged_order_is_neither_copied_nor_gathered_again():
    bench = Bench("staged", "index_map")
    bench.add(3, (2, 2))
    bench.tables.arrange(np.array([3]))
    bench.commit(1)
    bench.ledger.take()
    assert bench.commit(1) == ()
    bench.append(3, 0)
    bench.commit(1)
    assert [row[6] for row in bench.ledger.rows["copies"]] == ["block_diffs"]
    assert [row[2] for row in bench.ledger.rows["spans"]] == ["apply_diffs", "gather_rows"]


@pytest.mark.parametrize(("dirty", "names"), [(2, ["block_rows"]), (3, ["a", "b"]), (6, ["a", "b"])])
def test_rows_travel_in_bulk_once_half_of_them_changed(dirty, names):
    bench = Bench("dirty_rows")
    for row in range(ROWS):
        bench.add(row, (1, 1))
    bench.commit(ROWS)
    bench.ledger.take()
    bench.append_each(list(range(dirty)))
    bench.commit(ROWS)
    copies = bench.ledger.rows["copies"]
    assert [row[6] for row in copies] == names
    per_row = 4 * sum(WIDTHS) + 2 * 4 * 6 if dirty == 2 else 4 * sum(WIDTHS)
    assert sum(row[2] for row in copies) == per_row * (dirty if dirty == 2 else ROWS)
    assert sum(row[3] for row in copies) == (per_row if dirty == 2 else 4 * sum(WIDTHS)) * dirty


def test_staged_writes_oracle(runner_oracle):
    """Two calls of vLLM's test: three groups, rows overwritten, then one block appended in each."""
    first, then = runner_oracle("block_tables_v2_staged")
    ledger = Ledger()
    device, road = CpuDevice(ledger), Road()
    factory = TableFactory(device, BufferFactory(device, ledger, road=road), "abc", (4, (8, 8, 8)), "compute")
    tables = factory.make("staged", "in_place")
    groups = [BlockTable(part) for part in tables.parts]
    for case in (first["in"]["ops"], then["in"]["then"]):
        for verb, *arguments in case:
            if verb == "apply":
                tables.commit(2, 8)
                road.arrived()
                continue
            row, blocks = arguments
            for table, ids in zip(groups, blocks, strict=True):
                if verb == "overwrite":
                    table.add_row(row, ids)
                else:
                    table.append_row(row, ids)
        expected = first["out"] if case is first["in"]["ops"] else then["out"]
        for name, ids in expected.items():
            if name.startswith("g"):
                group, row = int(name[1]), int(name[3])
                assert tables.pools[0].tables[group][row, : len(ids)].tolist() == ids
            else:
                assert [table.num_blocks[:2].tolist() for table in groups] == ids


def test_growth_oracle(runner_oracle):
    for case in runner_oracle("uva_pool_growth_v2"):
        assert grown_capacity(case["in"]) == case["out"]


def test_a_growing_buffer_grows_to_the_next_power_of_two_and_never_shrinks():
    ledger = Ledger()
    device = CpuDevice(ledger)
    buffer = BufferFactory(device, ledger).growing("diffs", 4, torch.int32)
    sizes = []
    for count in (3, 5, 2, 9, 16):
        array = buffer.acquire(count)
        array[:count] = np.arange(count)
        buffer.publish(count)
        assert buffer.gpu[:count].tolist() == list(range(count))
        sizes.append((array.size, buffer.capacity))
    assert sizes == [(4, 4), (8, 8), (8, 8), (16, 16), (16, 16)]


def test_a_copy_into_grown_memory_comes_behind_its_zeroing():
    calls = []

    class Door(CpuDevice):
        def stream_wait(self, stream, event):
            calls.append((stream, event.stream))

    ledger = Ledger()
    buffer = BufferFactory(Door(ledger), ledger).growing("diffs", 4, torch.int32, stream="copy")
    buffer.acquire(4)
    assert calls == []
    buffer.acquire(5)
    assert calls == [("copy", "compute")]


def test_an_unknown_commit_is_refused():
    with pytest.raises(UsageError, match="commit: unknown value 'some'; known are full, dirty_rows, staged"):
        Bench("some")


def corrupted(commit, order, sets=1):
    """Whether a fixed busy life ends in a wrong table."""
    bench = Bench(commit, order, sets)
    wrong = False
    for step in range(8):
        bench.add(step % 4, (1 + step % 3, 2))
        bench.append_each([step % 4, (step + 1) % 4])
        if step == 5:
            bench.clear(1)
            bench.add(1, (2, 0))
        live = range(4)
        slots = np.asarray([(step + i) % 4 for i in live], dtype=np.intp)
        bench.tables.arrange(slots)
        bench.commit(4)
        rows = slots.tolist() if order == "index_map" else live
        wrong |= any(bench.seen(group)[:4] != bench.expected(group, rows) for group in range(2))
    return wrong


@pytest.mark.parametrize("order", ["in_place", "index_map"])
@pytest.mark.parametrize("commit", COMMITS)
def test_the_busy_life_of_the_mutants_is_right_without_a_mutant(commit, order):
    assert not corrupted(commit, order)
    assert not corrupted(commit, order, sets=2)


def test_mutant_a_difference_that_is_forgotten_when_a_row_comes_back(monkeypatch):
    touch = DiffTable.touch

    def forget(self, row, start, end):
        if start or not self._there[row]:  # the device has nothing of a row that is new
            touch(self, row, start, end)

    monkeypatch.setattr(DiffTable, "touch", forget)
    assert corrupted("staged", "index_map")


def test_mutant_a_row_that_shrank_keeps_its_tail(monkeypatch):
    def take(self):
        diffs = original(self)
        return diffs._replace(nulls=diffs.nulls * 0)

    original = DiffTable.take
    monkeypatch.setattr(DiffTable, "take", take)
    assert corrupted("staged", "in_place")


def test_mutant_a_stale_index_map(monkeypatch):
    arrange, kept = ByIndexMap.arrange, []

    def stale(self, rows):
        kept.append(rows)
        arrange(self, kept[max(0, len(kept) - 2)])

    monkeypatch.setattr(ByIndexMap, "arrange", stale)
    assert corrupted("staged", "index_map")


def test_mutant_dirty_rows_that_only_one_set_hears_of(monkeypatch):
    def touch(self, row, start, end):
        self._lacking[self._sets.current, row] = True
        self._outdated = [True] * len(self._outdated)
        self.staged.touch(row)

    monkeypatch.setattr(DirtyTable, "touch", touch)
    monkeypatch.setattr(DirtyTable, "touch_each", touch)
    assert corrupted("dirty_rows", "in_place", sets=2)
    assert not corrupted("dirty_rows", "in_place")


def test_mutant_a_kernel_that_is_never_launched(monkeypatch):
    monkeypatch.setattr(Scatter, "arrive", lambda self: None)
    assert corrupted("staged", "in_place")
