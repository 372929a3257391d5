"""The table kernels against NumPy. On a GPU directly; elsewhere through test_triton_interpreted.py."""

import os

import numpy as np
import pytest
import torch
from stepscope.runner.buffers.table_diffs import FIELDS, DiffTable, pack
from stepscope.runner.buffers.table_kernels import HostTableKernels
from stepscope.runner.buffers.table_pool import TablePool

pytest.importorskip("triton")
ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
ROWS, WIDTHS = 5, (1100, 7)  # longer than a chunk of the kernel, and shorter
pytestmark = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="see test_triton_interpreted.py")


class Memory:
    """What a TablePool asks of a device."""

    def __init__(self, device):
        self.device = device

    def empty(self, shape, dtype):
        return torch.zeros(shape, dtype=dtype, device=self.device)


def pools():
    return TablePool(Memory(DEVICE), ROWS, WIDTHS), TablePool(Memory("cpu"), ROWS, WIDTHS)


def kernels():
    from stepscope.runner.buffers.table_kernels import TritonTableKernels

    return TritonTableKernels(), HostTableKernels()


def random_diffs(rng, tables):
    """Rows of random length in each group's mirror, and their differences packed."""
    for table in tables:
        width = table.mirror.shape[1]
        for row in np.flatnonzero(rng.random(ROWS) < 0.7).tolist():
            start, end = sorted(rng.integers(0, width + 1, size=2).tolist())
            table.mirror[row, start:end] = rng.integers(1, 10_000, size=end - start)
            table.mirror[row, end:] = 0
            table.touch(row, start, end)
    diffs = [table.take() for table in tables]
    size = sum(FIELDS * part.rows.size + int(part.counts.sum()) for part in diffs)
    buffer = np.full(size, 99, dtype=np.int32)
    num_diffs, _ = pack(tables, diffs, buffer)
    return torch.from_numpy(buffer), num_diffs


@pytest.mark.parametrize("seed", range(4))
def test_differences_arrive_in_both_groups(seed):
    rng = np.random.default_rng(seed)
    (on_device, on_host), (triton, numpy) = pools(), kernels()
    tables = [DiffTable(torch.zeros((ROWS, width), dtype=torch.int32)) for width in WIDTHS]
    for _ in range(3):
        packed, num_diffs = random_diffs(rng, tables)
        if num_diffs:
            triton.scatter(on_device, packed.to(DEVICE), num_diffs)
            numpy.scatter(on_host, packed, num_diffs)
        assert torch.equal(on_device.flat.cpu(), on_host.flat)
    for table, mirror in zip(on_device.tables, tables, strict=True):
        assert torch.equal(table.cpu(), torch.from_numpy(mirror.mirror))


@pytest.mark.parametrize("columns", [0, 3, 1024, 1100])
def test_rows_are_gathered_as_the_map_says_and_null_where_it_says_nothing(columns):
    rng = np.random.default_rng(columns)
    (on_device, on_host), (step, expected), (triton, numpy) = pools(), pools(), kernels()
    on_host.flat.copy_(torch.from_numpy(rng.integers(1, 10_000, size=on_host.flat.numel(), dtype=np.int32)))
    on_device.flat.copy_(on_host.flat)
    step.flat.fill_(7)
    expected.flat.fill_(7)
    index_map = torch.tensor([4, 0, -1, 2, -1], dtype=torch.int32)
    triton.gather(on_device, step, index_map.to(DEVICE), 4, columns)
    numpy.gather(on_host, expected, index_map, 4, columns)
    assert torch.equal(step.flat.cpu(), expected.flat)
    for group, width in enumerate(WIDTHS):
        used = min(columns, width)
        assert (expected.tables[group][2, :used] == 0).all()
        assert (expected.tables[group][4] == 7).all()  # behind the rows that were asked for
        assert torch.equal(expected.tables[group][0, :used], on_host.tables[group][4, :used])
