"""One device or one rank of a capture: what is told of it is what a capture of it alone would tell."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.analysis.captures.selection import Selection
from stepscope.errors import UsageError
from stepscope.experiments.importing import report_of_part
from stepscope.instrumentation.sources import read_capture
from stepscope.reports import render_capture


def told(tables, meta):
    return json.loads(render_capture(capture_figures(tables, meta), "json", name="it"))


def work_of(export, number):
    """Two steps of one worker on its own device: a call, a kernel and a copy; each worker a little slower."""
    own, late = {"pid": 1000 + number}, 7_000 * number
    for step in range(2):
        at, ids = 1_000_000 * step + late, 10 * number + 2 * step
        export.range(at, at + 100_000 + late, f"execute_context_{step}(0)_generation_1(1)", **own)
        export.call(at + 1_000, at + 4_000, "cudaLaunchKernel_v7000", correlation=ids, **own)
        export.call(at + 5_000, at + 9_000, "cudaMemcpyAsync_v3020", correlation=ids + 1, **own)
        export.kernel(at + 8_000, at + 50_000 + late, correlation=ids, device=number, **own)
        export.copy(at + 60_000 + late, at + 61_000 + late, correlation=ids + 1, device=number, **own)


def test_a_device_of_eight_is_told_as_if_it_were_alone(export, tmp_path):
    # GIVEN eight workers, and a capture of the sixth alone
    for number in range(8):
        work_of(export, number)
    alone = type(export)(tmp_path / "alone.sqlite")
    work_of(alone, 5)
    alone._connection.close()
    capture, expected = read_capture(export.path), read_capture(alone.path)
    # THEN a part of the capture's tables, and of the recording's that it became, say the same
    part = Selection(device="5")
    assert str(part) == "device 5"
    assert told(part.of(capture.tables), capture.meta) == told(expected.tables, capture.meta)
    assert told(part.of(capture.recording().tables), capture.meta) == told(expected.tables, capture.meta)
    # AND what is not there is said with what is
    with pytest.raises(UsageError, match=r"^--device 9: .* it has device 0, 1, 2, 3, 4, 5, 6, 7$"):
        Selection(device="9").of(capture.tables)
    with pytest.raises(UsageError, match=r"^--rank 0: is not in this capture; it names no rank$"):
        Selection(rank=0).of(capture.tables)


def test_a_process_with_two_devices_keeps_its_calls(export):
    export.call(0, 1_000, "cudaLaunchKernel_v7000", correlation=1)
    export.call(2_000, 3_000, "cudaLaunchKernel_v7000", correlation=2)
    export.kernel(500, 9_000, correlation=1, device=0)
    export.kernel(2_500, 8_000, correlation=2, device=1)
    capture = read_capture(export.path)
    found = capture_figures(Selection(device="1").of(capture.tables), capture.meta)
    assert [(own.device, own.kernels) for own in found.devices] == [("1", 1)]
    assert [own.n for own in found.calls] == [2]


def test_what_calls_launched_on_another_device_is_not_lost(export):
    # GIVEN a process that computes on device 0 and copies on device 1
    export.call(0, 1_000, "cudaLaunchKernel_v7000", correlation=1)
    export.call(2_000, 3_000, "cudaMemcpyAsync_v3020", correlation=2)
    export.kernel(500, 9_000, correlation=1, device=0)
    export.copy(2_500, 8_000, correlation=2, device=1)
    export.copy(9_500, 9_600, correlation=2, device=1)
    export.range(0, 1_500, "launches")
    capture = read_capture(export.path)
    whole = {own.device: own for own in capture_figures(capture.tables, capture.meta).devices}
    # THEN what is told of either device alone is what the whole capture tells of it: nothing is missing there
    for device in "01":
        found = told_of_part(Selection(device=device), capture)
        assert found["devices"] == [json.loads(json.dumps(asdict(whole[device])))]
        assert not any("launched kernels" in own["because"] for own in found["cannot_say"])
        expected = {"0": (1, None), "1": (0, "nothing was launched on this device inside the range")}[device]
        assert [(own["gpu_ops"], own["gpu_reason"]) for own in found["ranges"]] == [expected]


def told_of_part(part, capture):
    return json.loads(report_of_part(capture.tables, capture.meta, "json", "it", part))["content"]


def test_a_rank_of_two_that_number_their_devices_alike(kineto, made):
    files = []
    for rank in (0, 1):
        events = [made.call(100, 5, "cudaLaunchKernel", 7), made.kernel(110, 40 + rank, 7)]
        files.append(kineto(events, f"rank{rank}.json", distributedInfo={"rank": rank}))
    capture = read_capture(files)
    found = capture_figures(Selection(rank=1).of(capture.tables), capture.meta)
    assert [(own.rank, own.kernels, own.busy_ns) for own in found.devices] == [(1, 1, 41_000)]
    with pytest.raises(UsageError, match=r"^--rank 2: is not in this capture; it has rank 0, 1$"):
        Selection(rank=2).of(capture.tables)
    with pytest.raises(UsageError, match=r"^--device 3: rank 1 of this capture has no work on it; it has device 0$"):
        Selection(device="3", rank=1).of(capture.tables)
