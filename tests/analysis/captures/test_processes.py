"""Case 28's check on what was captured: every process that was expected brought kernels."""

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.analysis.captures.processes import ProcessFigures, check_processes
from stepscope.errors import MeasurementError
from stepscope.instrumentation.sources import read_capture


def process(pid, kernels, calls=5):
    return ProcessFigures(host=None, pid=pid, rank=None, kernels=kernels, copies=0, calls=calls, ranges=0)


def test_all_that_were_expected_have_kernels():
    check_processes([process(1, 4), process(2, 9)], [1, 2], "capture")
    check_processes([process(1, 4), process(2, 0)], [1], "capture")
    check_processes([], [], "capture")


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        ([process(1, 4), process(2, 0)], "with kernels: 1"),  # its calls were recorded, its work was not
        ([process(1, 4), process(3, 2)], "with kernels: 1, 3"),  # nobody traced it at all
        ([process(1, 0)], "with kernels: none"),
    ],
)
def test_the_one_that_is_missing_is_named_with_the_mend(found, seen):
    expected = [1] if len(found) == 1 else [1, 2]
    with pytest.raises(MeasurementError, match=f"process {expected[-1]} has no GPU kernels") as raised:
        check_processes(found, expected, "capture.nsys-rep")
    text = str(raised.value)
    assert raised.value.exit_code == 3
    assert text.startswith("capture.nsys-rep: ")
    assert seen in text
    assert "--trace-fork-before-exec=true" in text
    assert "\n" not in text


def test_figures_count_by_process_and_replays_of_whole_graphs_as_kernels(export, made):
    export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1, pid=1)
    export.kernel(10, 20, correlation=1, pid=1)
    export.copy(30, 40, correlation=2, pid=1)
    export.range(0, 50, "step", pid=1)
    export.call(0, 5, "cudaGraphLaunch_v10000", correlation=1, pid=2)
    export.add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=50, end=60, deviceId=0, contextId=1, streamId=7, correlationId=1,
        globalPid=made.global_pid(2), graphId=1, graphExecId=1,
    )  # fmt: skip
    export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1, pid=3)
    capture = read_capture(export.path)
    found = {own.pid: own for own in capture_figures(capture.tables, capture.meta).processes}
    assert {pid: (own.kernels, own.copies, own.calls, own.ranges) for pid, own in found.items()} == {
        1: (1, 1, 1, 1), 2: (1, 0, 1, 0), 3: (0, 0, 1, 0),
    }  # fmt: skip
    check_processes(list(found.values()), [1, 2], "capture")
    with pytest.raises(MeasurementError, match="process 3 has no GPU kernels"):
        check_processes(list(found.values()), [1, 2, 3], "capture")
