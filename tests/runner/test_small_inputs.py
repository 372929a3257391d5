"""Small inputs of a step packed into one buffer: where they lie and what travels."""

import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.runner.buffers import small_inputs
from stepscope.runner.buffers.device_sets import DeviceSets
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.buffers.road import Road
from stepscope.runner.buffers.small_inputs import ALIGNMENT_BYTES, Field, make_small_inputs, offsets
from stepscope.runner.devices.cpu import CpuDevice

FIELDS = (
    Field("starts", 9, torch.int32), Field("lens", 8, torch.int32), Field("ids", 100, torch.int32),
    Field("positions", 100, torch.int64),
)  # fmt: skip


@pytest.fixture
def make():
    """make(packing, **factory options) -> (inputs, ledger, sets)."""

    def build(packing, staging="pinned_ring", sets=1):
        ledger, road = Ledger(), Road(sets=DeviceSets(sets))
        factory = BufferFactory(CpuDevice(ledger), ledger, staging, road=road)
        return make_small_inputs(packing, factory, FIELDS, "compute"), ledger, road.sets

    return build


def step(inputs, value, counts):
    """Write everything, publish `counts` of each field."""
    for field in FIELDS:
        inputs[field.name].acquire()[:] = np.arange(field.capacity) + value
    for name, count in counts.items():
        inputs[name].publish(count)
    return inputs.close()


def test_fields_are_aligned_and_do_not_overlap():
    places, size = offsets(FIELDS)
    assert places == [0, 256, 512, 1024]
    assert size == 1024 + 1024
    assert all(place % ALIGNMENT_BYTES == 0 for place in places)


@pytest.mark.parametrize("staging", ["pinned_ring", "pinned_single", "fresh_pinned", "pageable"])
@pytest.mark.parametrize("packing", ["separate", "packed"])
def test_what_is_published_arrives_under_its_own_type(make, packing, staging):
    inputs, _, _ = make(packing, staging)
    for value in (1, 1000, 7):
        step(inputs, value, {"starts": 9, "lens": 8, "ids": 5, "positions": 5})
        for field in FIELDS:
            count = 5 if field.capacity == 100 else field.capacity
            assert inputs[field.name].gpu.dtype == field.dtype
            assert inputs[field.name].gpu[:count].tolist() == list(range(value, value + count))


def test_one_copy_reaches_to_the_last_published_entry(make):
    inputs, ledger, _ = make("packed")
    copy = step(inputs, 0, {"positions": 3, "starts": 9, "lens": 8, "ids": 3})
    assert [(row[2], row[6], row[-1]) for row in ledger.rows["copies"]] == [(1024 + 3 * 8, "packed_inputs", copy)]
    # AND a step without tokens on the way sends no more than its borders
    step(inputs, 0, {"starts": 9, "lens": 8})
    assert ledger.rows["copies"][-1][2] == 256 + 8 * 4


def test_nothing_of_an_earlier_step_travels_behind_what_is_published(make):
    # GIVEN a slot in which an earlier step published more, and another input not at all by now
    inputs, _, _ = make("packed", "pinned_single")
    write(inputs["ids"], [7, -1, -1, -1])
    write(inputs["lens"], [3, 3])
    write(inputs["positions"], [1, 2, 3])
    inputs.close()
    write(inputs["ids"], [8, 9])
    write(inputs["positions"], [4, 5])
    inputs.close()
    # THEN what a padded reader finds behind the last entry is zero, in the middle of the copy as well
    assert inputs["ids"].gpu[:5].tolist() == [8, 9, 0, 0, 0]
    assert inputs["lens"].gpu[:3].tolist() == [0, 0, 0]
    # AND of what was written and not published, nothing
    inputs["ids"].acquire()[:4] = -1
    write(inputs["positions"], [6])
    inputs.close()
    assert inputs["ids"].gpu[:5].tolist() == [0] * 5


def write(field, values):
    field.acquire()[: len(values)] = values
    field.publish(len(values))


def test_separate_inputs_are_copied_when_they_are_published(make):
    inputs, ledger, _ = make("separate")
    assert step(inputs, 0, {"positions": 3, "starts": 9}) == 0
    assert [(row[2], row[6]) for row in ledger.rows["copies"]] == [(24, "positions"), (36, "starts")]


def test_each_set_has_the_whole_buffer(make):
    inputs, _, sets = make("packed", sets=2)
    for value in (5, 6):
        sets.advance()
        step(inputs, value, {"ids": 2})
    assert [gpu[:2].tolist() for gpu in inputs["ids"].gpus] == [[5, 6], [6, 7]]
    assert inputs["ids"].gpu is inputs["ids"].gpus[1]


def test_nothing_published_is_no_copy(make):
    inputs, ledger, _ = make("packed")
    assert step(inputs, 0, {"ids": 0}) == 0
    assert ledger.rows["copies"] == []


def test_mutant_a_misaligned_offset_is_refused_by_the_typed_view(make, monkeypatch):
    monkeypatch.setattr(small_inputs, "ALIGNMENT_BYTES", 4)
    assert offsets(FIELDS)[0] == [0, 36, 68, 468]
    with pytest.raises(RuntimeError, match="storage_offset"):
        make("packed")


def test_an_unknown_packing_is_refused(make):
    with pytest.raises(UsageError, match="h2d_packing: unknown value 'zip'; known are separate, packed"):
        make("zip")
