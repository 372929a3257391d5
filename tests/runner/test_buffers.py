"""Staged buffers over the sim and the cpu device: what they hand out, send, keep current and write down."""

from pathlib import Path

import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.recording.schema import BUFFERS, COPIES
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.guards import NoGuard, StepGuard
from stepscope.runner.buffers.publication import checksum
from stepscope.runner.buffers.road import Road
from stepscope.runner.buffers.slots import locked_bytes
from stepscope.runner.devices import make_device
from stepscope.runner.devices.sim_clock import DeclaredHost

ROUND = str(Path(__file__).parent / "data" / "round.json")
STAGINGS = ("pinned_ring", "pinned_single", "pageable", "fresh_pinned")


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def sim(ledger):
    return make_device("sim", ledger=ledger, calibration=ROUND, cost_model="round", host=DeclaredHost())


def table_of(factory, rows, width):
    return factory.table("blocks", factory.pools(rows, [width]))


def rows(ledger, table, columns):
    names = ["step", *(column.name for column in columns)]
    return [dict(zip(names, row, strict=True)) for row in ledger.rows[table]]


@pytest.mark.parametrize(
    ("asked", "locked"), [(129.5, 256), (112, 128), (96, 128), (36, 64), (9, 16), (64, 64), (0, 0)]
)
def test_the_allocators_rounding_is_estimated(asked, locked):
    mib = 1 << 20
    assert locked_bytes(int(asked * mib)) == locked * mib


@pytest.mark.parametrize("staging", STAGINGS)
@pytest.mark.parametrize("name", ["sim", "cpu"])
def test_what_is_written_arrives_and_the_device_address_stays(ledger, sim, staging, name):
    device = sim if name == "sim" else make_device("cpu", ledger=ledger)
    buffer = BufferFactory(device, ledger, staging).buffer("ids", 6, torch.int32)
    address = buffer.gpu.data_ptr()
    for step in range(5):
        view = buffer.acquire()
        view[:4] = np.arange(4) + 10 * step
        assert view.shape == (6,)
        assert np.shares_memory(view, buffer.cpu.numpy())
        buffer.publish(4)
        assert buffer.gpu.tolist() == [*(10 * step + i for i in range(4)), 0, 0]
    assert buffer.gpu.data_ptr() == address


def test_a_ring_hands_out_its_slots_in_turn_and_waits_for_the_copy_in_the_slot(ledger, sim):
    # GIVEN a ring of two and copies of 1 us, long over, that nobody has waited for
    buffer = BufferFactory(sim, ledger, ring_slots=2).buffer("ids", 100, torch.int32)
    for step in range(3):
        ledger.step = step
        sim.idle_until(step * 50_000)
        buffer.acquire()
        buffer.publish(100)

    # THEN the third use waits for the first copy: its event is done, so it costs the call, 1.5 us
    assert [row["slot"] for row in rows(ledger, "buffers", BUFFERS)] == [0, 1, 0]
    assert rows(ledger, "buffers", BUFFERS)[2] == {
        "step": 2, "buffer": "ids", "capacity_bytes": 800, "used_bytes": 400, "reserved_bytes": 1024,
        "memory": "pinned", "slot": 0, "reuse_count": 1, "wait_ns": 1500, "hazard": "none",
    }  # fmt: skip
    assert [row[2] for row in ledger.rows["waits"]] == ["buffer:ids"]
    copies = rows(ledger, "copies", COPIES)
    assert [(copy["src_kind"], copy["is_async"], copy["buffer"]) for copy in copies] == [("pinned", True, "ids")] * 3


def test_a_slot_whose_copy_the_host_has_seen_costs_no_wait(ledger, sim):
    buffer = BufferFactory(sim, ledger, "pinned_single").buffer("ids", 4, torch.int32)
    buffer.acquire()
    buffer.publish(4)
    sim.launch("later", lambda: None, _fill())
    sim.host_wait(sim.record("compute"), "tokens")  # proves the copy before it on the same stream
    buffer.acquire()
    buffer.publish(4)

    assert [row[2] for row in ledger.rows["waits"]] == ["tokens"]
    assert [row["hazard"] for row in rows(ledger, "buffers", BUFFERS)] == ["none", "none"]


def _fill():
    from stepscope.runner.devices.base import Work

    return Work("fill", rows=1)


def test_without_a_guard_a_reuse_that_nothing_proves_is_possible_hazard(ledger, sim):
    factory = BufferFactory(sim, ledger, "pinned_single", road=Road(make_guard=lambda *_: NoGuard()))
    buffer = factory.buffer("ids", 4, torch.int32)
    buffer.acquire()
    buffer.publish(4)
    sim.idle_until(10**9)  # long enough for the copy, but time proves nothing
    buffer.acquire()
    buffer.publish(4)

    assert [row["hazard"] for row in rows(ledger, "buffers", BUFFERS)] == ["none", "possible"]


def test_one_sealed_event_guards_all_buffers_of_a_step(ledger, sim):
    guard = StepGuard(sim, "compute")
    factory = BufferFactory(sim, ledger, "pinned_single", road=Road(make_guard=lambda *_: guard))
    buffers = [factory.buffer(name, 4, torch.int32) for name in "abc"]
    before = sim.clock.now_ns()
    for buffer in buffers:
        buffer.acquire()
        buffer.publish(4)
    guard.seal()
    guard.seal()  # nothing is open any more: no second event
    assert sim.clock.now_ns() - before == 3 * 4000 + 2000  # three copies, one event record

    for buffer in buffers:
        buffer.acquire()
        buffer.publish(4)
    assert [row[2] for row in ledger.rows["waits"]] == ["buffer:a"]  # one wait proves all three


def test_a_step_guard_that_nobody_sealed_still_guards(ledger, sim):
    guard = StepGuard(sim, "compute")
    factory = BufferFactory(sim, ledger, "pinned_single", road=Road(make_guard=lambda *_: guard))
    buffer = factory.buffer("a", 4, torch.int32)
    for _ in range(2):
        buffer.acquire()
        buffer.publish(4)
    assert [row["hazard"] for row in rows(ledger, "buffers", BUFFERS)] == ["none", "none"]
    assert len(ledger.rows["waits"]) == 1


def test_fresh_pinned_memory_is_used_once_and_pageable_memory_is_copied_synchronously(ledger, sim):
    for staging in ("fresh_pinned", "pageable"):
        buffer = BufferFactory(sim, ledger, staging).buffer(staging, 300, torch.int32)
        for _ in range(2):
            buffer.acquire()
            buffer.publish(300)
    fresh, _, first, second = rows(ledger, "buffers", BUFFERS)
    assert (fresh["slot"], fresh["reuse_count"], fresh["memory"], fresh["reserved_bytes"]) == (None, 0, "pinned", 2048)
    assert (first["slot"], second["reuse_count"], second["memory"]) == (0, 1, "pageable")
    assert second["capacity_bytes"] == second["reserved_bytes"] == 1200
    assert {row["hazard"] for row in rows(ledger, "buffers", BUFFERS)} == {"none"}
    copies = rows(ledger, "copies", COPIES)
    kinds = [(copy["src_kind"], copy["is_async"]) for copy in copies]
    assert kinds == [("pinned", True)] * 2 + [("pageable", False)] * 2


def test_nothing_published_copies_nothing_and_needs_no_guard(ledger, sim):
    buffer = BufferFactory(sim, ledger, "pinned_single").buffer("ids", 4, torch.int32)
    for _ in range(2):
        buffer.acquire()
        assert buffer.publish(0) == 0
    assert not ledger.rows["copies"]
    assert not ledger.rows["waits"]
    assert [row["used_bytes"] for row in rows(ledger, "buffers", BUFFERS)] == [0, 0]


def test_without_pinned_memory_everything_is_pageable_and_says_why(ledger):
    factory = BufferFactory(make_device("cpu", ledger=ledger), ledger, "pinned_ring")
    assert factory.staging == "pageable"
    assert "pageable host memory" in factory.memory_reason
    buffer = factory.buffer("ids", 4, torch.int32)
    buffer.acquire()
    buffer.publish(4)
    assert [row["memory"] for row in rows(ledger, "buffers", BUFFERS)] == ["pageable"]


def test_wrong_switches_are_refused(ledger, sim):
    with pytest.raises(UsageError, match="staging: unknown value 'copy'; known are pinned_ring"):
        BufferFactory(sim, ledger, "copy")
    with pytest.raises(UsageError, match="ring_slots: 0 is below 1"):
        BufferFactory(sim, ledger, ring_slots=0)


@pytest.mark.parametrize("staging", STAGINGS)
@pytest.mark.parametrize("seed", range(3))
def test_the_device_table_equals_the_mirror_after_every_publish(ledger, sim, staging, seed):
    # GIVEN random writes to random rows and publishes of changing height, over rings of one to three slots
    rng = np.random.default_rng(seed)
    table = table_of(BufferFactory(sim, ledger, staging, ring_slots=seed + 1), 9, 5)
    address = table.gpu.data_ptr()
    for _ in range(60):
        for row in rng.integers(0, 9, size=rng.integers(0, 4)):
            table.mirror[row] = rng.integers(1, 100, size=5)
            table.touch(int(row))
        height = int(rng.integers(1, 10))
        table.publish(height)
        assert np.array_equal(table.gpu[:height].numpy(), table.mirror[:height])
    assert table.gpu.data_ptr() == address
    assert not sim.is_pinned(torch.from_numpy(table.mirror))


def test_a_slot_takes_only_rows_that_changed_since_it_was_last_used(ledger, sim):
    factory = BufferFactory(sim, ledger, ring_slots=2)
    table = table_of(factory, 4, 3)
    first, second = table.publisher.supply.slots
    for _ in range(2):
        table.publish(4)  # both slots are current now
    table.mirror[1] = 7
    table.touch(1)
    first.array[0] = 99  # planted: a row that nobody touched must be left alone
    table.publish(4)

    assert table.gpu[:, 0].tolist() == [99, 7, 0, 0]
    assert second.array[1].tolist() == [0, 0, 0]  # the other slot gets row 1 at its own next use
    table.publish(4)
    assert second.array[1].tolist() == [7, 7, 7]
    # changed since the publish before: one row of 3 ids, then none
    assert [row["changed_bytes"] for row in rows(ledger, "copies", COPIES)] == [0, 0, 12, 0]
    assert [row["size_bytes"] for row in rows(ledger, "copies", COPIES)] == [48] * 4


def test_a_slot_takes_no_column_that_was_never_written(ledger, sim):
    table = table_of(BufferFactory(sim, ledger, ring_slots=2), 4, 6)
    table.mirror[1, :2] = (3, 4)
    table.touch(1, 0, 2)
    table.mirror[2, 2:4] = (5, 6)
    table.touch_each(np.array([2]), np.array([2]), np.array([4]))
    table.mirror[:, 4:] = 99  # planted behind the last column that anybody reported
    for _ in range(2):
        table.publish(4)
        assert table.gpu.tolist() == [[0] * 6, [3, 4, 0, 0, 0, 0], [0, 0, 5, 6, 0, 0], [0] * 6]
    table.touch(3)  # a writer who does not say where may have written anywhere
    table.publish(4)
    assert table.gpu[3].tolist() == [0, 0, 0, 0, 99, 99]


def test_rows_above_the_published_height_stay_stale_until_they_travel(ledger, sim):
    table = table_of(BufferFactory(sim, ledger, "pinned_single"), 4, 1)
    table.mirror[3] = 5
    table.touch(3)
    table.publish(2)
    table.publish(4)
    assert table.gpu[:, 0].tolist() == [0, 0, 0, 5]
    assert [row["changed_bytes"] for row in rows(ledger, "copies", COPIES)] == [0, 4]


def test_the_checksum_sees_values_and_places():
    base = torch.arange(64, dtype=torch.int32)
    swapped, changed = base.clone(), base.clone()
    swapped[3], swapped[40] = base[40], base[3]
    changed[63] += 1
    sums = {int(checksum(tensor)) for tensor in (base, swapped, changed, base[:63], torch.zeros(64, dtype=torch.int32))}
    assert len(sums) == 5
    assert int(checksum(base.clone())) in sums
