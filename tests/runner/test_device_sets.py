"""Two sets of device buffers: what lands in which, and what each table still has to hear."""

import numpy as np
import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers.device_sets import DeviceSets
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.road import Road
from stepscope.runner.devices.cpu import CpuDevice


@pytest.fixture
def make():
    """make(count) -> (sets, factory)."""

    def build(count):
        sets, ledger = DeviceSets(count), Ledger()
        return sets, BufferFactory(CpuDevice(ledger), ledger, road=Road(sets=sets))

    return build


def test_the_first_step_fills_the_first_set_and_the_sets_alternate():
    sets = DeviceSets(2)
    seen = []
    for _ in range(4):
        sets.advance()
        seen.append(sets.current)
    assert seen == [0, 1, 0, 1]


def test_a_publish_writes_the_steps_set_and_leaves_the_other_as_its_readers_saw_it(make):
    sets, factory = make(2)
    buffer = factory.buffer("ids", 4, torch.int32)
    for value in (1, 2, 3):
        sets.advance()
        buffer.acquire()[:] = value
        buffer.publish(4)
    assert [gpu.tolist() for gpu in buffer.gpus] == [[3] * 4, [2] * 4]
    assert buffer.gpu is buffer.gpus[0]


def test_rows_that_were_given_up_travel_once_more_as_null_rows(make):
    # GIVEN a batch of three rows that shrinks to one
    _, factory = make(1)
    table = factory.table("blocks", factory.pools(4, [2]))
    table.mirror[:3, 0] = (1, 2, 3)
    for row in np.arange(3).tolist():
        table.touch(row)
    table.publish(3)
    table.mirror[1:] = 0
    for row in np.array([1, 2]).tolist():
        table.touch(row)
    used = []
    for _ in range(2):
        table.publish(1)
        used.append(factory._ledger.rows["copies"][-1][2])
    # THEN its old rows are nulled on the device, and travel no more after that
    assert table.gpu.tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    assert used == [3 * 8, 1 * 8]


def test_each_device_table_hears_of_given_up_rows_and_of_changes_by_itself(make):
    sets, factory = make(2)
    table = factory.table("blocks", factory.pools(3, [1]))
    table.mirror[:] = 5
    for row in np.arange(3).tolist():
        table.touch(row)
    for height in (3, 3):
        sets.advance()
        table.publish(height)
    assert not table.dirty
    table.mirror[1:] = 0
    for row in np.array([1, 2]).tolist():
        table.touch(row)
    seen = []
    for _ in range(2):
        sets.advance()
        seen.append(table.dirty)
        table.publish(1)
        seen.append(table.gpu[:, 0].tolist())
    assert seen == [True, [5, 0, 0], True, [5, 0, 0]]
    sets.advance()
    assert not table.dirty


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("seed", [0, 1])
def test_after_every_publish_the_steps_table_is_the_mirror(make, count, seed):
    rng = np.random.default_rng(seed)
    sets, factory = make(count)
    table = factory.table("blocks", factory.pools(8, [3]))
    for step in range(60):
        height = int(rng.integers(0, 9))
        for row in rng.integers(0, 8, size=2).tolist():
            table.mirror[row] = step if row < height else 0
            table.touch(row)
        table.mirror[height:] = 0
        for row in np.arange(height, 8).tolist():
            table.touch(row)
        sets.advance()
        table.publish(height)
        assert table.gpu.tolist() == table.mirror.tolist()
