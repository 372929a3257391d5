"""Work is tied to the call with its id: all 64 bits of it count."""

import numpy as np
import pytest
from stepscope.instrumentation.sources import read_capture
from stepscope.instrumentation.sources.arrays import ABSENT, LARGEST
from stepscope.instrumentation.sources.links import calls_of
from stepscope.instrumentation.sources.trace import LAUNCH, DeviceRows, HostRows


def column(values):
    return np.array(values, dtype=np.int64)


def host(ids, process=None, start=None, end=None):
    n = len(ids)
    return HostRows(
        process=column(process or [0] * n), start=column(start or range(n)), end=column(end or range(n)),
        correlation=column(ids), kind=column([LAUNCH] * n),
    )  # fmt: skip


def work(ids, process=None, start=None):
    n = len(ids)
    return DeviceRows(process=column(process or [0] * n), start=column(start or [0] * n), correlation=column(ids))


@pytest.mark.parametrize("wide", [1 << 40, (1 << 40) + 7, 7 << 40, LARGEST, -1, -(1 << 40) + 7])
def test_ids_that_agree_in_their_lower_bits_are_different_ids(wide):
    calls = calls_of(host([7, wide]))
    assert calls.of(work([wide, 7, wide + 1 if wide < LARGEST else 8, 0, ABSENT])).tolist() == [1, 0, -1, -1, -1]
    assert calls_of(host([7, 9])).of(work([wide, 7])).tolist() == [-1, 0]


def test_ids_count_within_a_process_whatever_their_size():
    calls = calls_of(host([5 << 40, 5 << 40, 3], process=[1, 0, 2]))
    assert calls.of(work([5 << 40, 5 << 40, 5 << 40, 3], process=[0, 1, 2, 2])).tolist() == [1, 0, -1, 2]


@pytest.mark.parametrize("id_", [5, 5 << 50])
def test_of_calls_in_one_another_with_one_id_the_outermost_counts(id_):
    """A call of the runtime and that of the driver inside it; start 1 of the third is inside the first as well."""
    calls = calls_of(host([id_, id_, id_], start=[2, 0, 1], end=[3, 9, 2]))
    assert calls.of(work([id_, id_], start=[0, 50])).tolist() == [1, 1]


def test_an_id_that_comes_again_has_work_of_its_own():
    """Counters wrap, and captures of several windows begin to count anew."""
    start, end = [0, 10, 100, 105, 3], [5, 15, 110, 106, 4]
    calls = calls_of(host([7, 8, 7, 7, 8], process=[0, 0, 0, 0, 1], start=start, end=end))
    found = calls.of(work([7, 7, 7, 8, 8, 7], process=[0, 0, 0, 0, 1, 1], start=[-5, 99, 100, 400, 1, 1]))
    assert found.tolist() == [0, 0, 2, 1, 4, -1]


def test_a_trace_with_ids_of_64_bits(kineto, made):
    first, second = (1 << 62) + 1, (1 << 62) + 1 + (1 << 40)
    calls = [made.call(0, 1, "cudaLaunchKernel", first), made.call(2, 1, "cudaLaunchKernel", second), {"ph": "M"}]
    work = [made.kernel(10, 1, second), made.kernel(20, 1, first), made.kernel(30, 1, None)]
    spans = read_capture(kineto([*calls, *work])).tables["spans"].to_pydict()
    assert spans["correlation"] == [first, second, second, first, None]
