"""Captures in which work ran that stands in no row: no idle time, no exposed copy is made up from that."""

import sqlite3
from contextlib import closing

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import MeasurementError
from stepscope.instrumentation.sources import read_capture
from stepscope.reports import render_capture

FORMATS = ("text", "md", "json", "html")
STEP = "execute_context_0(0)_generation_{n}({n})"


def figures(path):
    capture = read_capture(path)
    return capture_figures(capture.tables, capture.meta)


def unsaid(found, question):
    return [own.because for own in found.cannot_say if question in own.question]


def all_formats(found):
    return [render_capture(found, format_, name="capture") for format_ in FORMATS]


class TestGraphLaunchesThatLeftNothing:
    """Whole graphs were traced, and the table of their replays is not in the export."""

    @pytest.fixture
    def found(self, export):
        export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1)
        export.kernel(10, 20, correlation=1)
        export.call(100, 120, "cudaGraphLaunch_v10000", correlation=2)
        export.copy(1000, 1010, correlation=3)
        return figures(export.path)

    def test_nothing_is_called_idle_or_exposed(self, found):
        (device,) = found.devices
        assert (device.window_ns, device.kernel_union_ns, device.memcpy_union_ns) == (1000, None, 10)
        assert (device.busy_ns, device.idle_ns, device.idle_pct, device.gaps, device.gap_max_ns) == (None,) * 5
        assert device.memory_under_kernels_ns is None
        assert found.gaps == ()
        assert [(own.sum_ns, own.hidden_under_kernels_ns) for own in found.copies] == [(10, None)]
        assert [(own.union_ns, own.under_kernels_ns) for own in found.hidden] == [(10, None)]

    def test_the_reason_stands_in_every_format(self, found):
        (why,) = unsaid(found, "busy, idle")
        assert why == "none of 1 graph launches left a replay or a kernel in the capture"
        for text in all_formats(found):
            assert why in " ".join(text.split())

    def test_one_replay_is_enough(self, export, made):
        export.call(100, 120, "cudaGraphLaunch_v10000", correlation=2)
        export.call(200, 220, "cudaGraphLaunch_v10000", correlation=3)
        export.kernel(130, 150, correlation=2, node=7)
        export.copy(160, 170)
        assert [(own.busy_ns, own.idle_ns) for own in figures(export.path).devices] == [(30, 10)]


    def test_a_capture_that_ties_no_work_to_calls_shows_nothing_of_the_kind(self, export, made):
        """Re-cut exports without correlations."""
        export.call(100, 120, "cudaGraphLaunch_v10000", correlation=0)
        export.kernel(130, 150)
        export.copy(160, 170)
        assert [(own.busy_ns, own.idle_ns) for own in figures(export.path).devices] == [(30, 10)]
        # nor one whose replays are there, but not their calls
        export.call(200, 220, "cudaGraphLaunch_v10000", correlation=9)
        export.add(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=230, end=260, deviceId=0, contextId=1, streamId=7,
            globalPid=made.global_pid(1001), graphId=1, graphExecId=2,
        )  # fmt: skip
        assert [own.busy_ns for own in figures(export.path).devices] == [60]


class TestWithoutKernels:
    def test_copies_alone_tell_no_idle_time(self, export):
        export.copy(10, 20)
        export.copy(50, 60)
        found = figures(export.path)
        assert [(own.window_ns, own.busy_ns, own.idle_ns, own.copies) for own in found.devices] == [(50, None, None, 2)]
        (why,) = unsaid(found, "busy, idle")
        assert why == "the capture has no kernels, and no calls that would tell whether any ran"
        for text in all_formats(found):
            assert "idled" not in text

    def test_a_program_that_only_copies_is_told_in_full(self, export):
        export.call(0, 5, "cudaMemcpyAsync_v3020", correlation=1)
        export.copy(10, 20, correlation=1)
        export.copy(50, 60)
        found = figures(export.path)
        assert [(own.busy_ns, own.idle_ns, own.idle_pct) for own in found.devices] == [(20, 30, 60.0)]
        assert [own.under_kernels_ns for own in found.hidden] == [0]
        assert unsaid(found, "busy, idle") == []

    @pytest.mark.parametrize("call", ["cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaGraphLaunch_v10000"])
    def test_launches_without_any_kernel_end_the_import(self, export, call):
        export.call(0, 5, call, correlation=1)
        export.copy(10, 20, correlation=2)
        with pytest.raises(MeasurementError, match="no GPU kernels beside 1 copies, though 1 calls of CUDA"):
            read_capture(export.path)

    def test_so_they_do_in_a_trace(self, kineto, made):
        path = kineto([made.call(0, 5, "cudaLaunchKernel", 1), made.copy(10, 20, "HtoD (Pinned -> Device)")])
        with pytest.raises(MeasurementError, match="no GPU kernels beside 1 copies"):
            read_capture(path)
        path = kineto([made.call(0, 5, "cudaMemcpyAsync", 1), made.copy(10, 20, "HtoD (Pinned -> Device)")])
        assert [own.busy_ns for own in figures(path).devices] == [20_000]


class TestWithoutCalls:
    """Nobody knows which step, and which range, launched what."""

    @pytest.fixture
    def found(self, export):
        for n in range(2):
            export.range(1000 * n, 1000 * n + 900, STEP.format(n=n))
            export.kernel(1000 * n + 100, 1000 * n + 300, correlation=n + 1)
        return figures(export.path)

    def test_counts_of_steps_and_ranges_are_null(self, found):
        assert len(found.steps) == 2
        for name in ("kernels", "copies", "graph_launches", "graph_replays", "busy_ns"):
            assert found.steps[name].isna().all(), name
        assert {(own.gpu_ops, own.nsys_uses, own.gpu_reason) for own in found.ranges} == {
            (None, None, "the capture has no calls")
        }

    def test_the_devices_are_told_and_every_format_is_made(self, found):
        assert [(own.busy_ns, own.idle_ns) for own in found.devices] == [(400, 800)]
        for text in all_formats(found):
            assert "the capture has no calls of CUDA" in " ".join(text.split())


class TestWorkThatIsNowhere:
    """Re-cut exports: the table of copies is gone, or the column that tells the device."""

    @pytest.fixture
    def cut(self, export):
        export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1)
        export.kernel(10, 20, correlation=1)
        export.call(20, 25, "cudaMemcpyAsync_v3020", correlation=2)
        export.copy(30, 60, correlation=2)
        export.kernel(100, 110, correlation=3)

        def execute(statement):
            with closing(sqlite3.connect(export.path)) as database:
                database.execute(statement)
                database.commit()
            return figures(export.path)

        return execute

    @pytest.mark.parametrize(
        "statement",
        ["DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY", "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN start"],
    )
    def test_copies_that_left_nothing_are_no_idle_time(self, cut, statement):
        found = cut(statement)
        assert [(own.busy_ns, own.idle_ns, own.kernel_union_ns) for own in found.devices] == [(None, None, 20)]
        assert unsaid(found, "busy, idle") == ["1 calls copied and no copy is in the capture"]

    def test_memsets_that_left_nothing_are_no_idle_time(self, export, kineto, made):
        """Of both formats; one memset is enough, whichever call it belongs to."""
        calls = ("cudaLaunchKernel_v7000", "cudaMemsetAsync_v3020")
        for correlation, name in enumerate(calls, start=1):
            export.call(5 * correlation, 5 * correlation + 2, name, correlation=correlation)
        export.kernel(20, 30, correlation=1)
        export.kernel(90, 100, correlation=3)
        events = [made.call(5 * n, 2, name.split("_")[0], n) for n, name in enumerate(calls, start=1)]
        events += [made.kernel(20, 10, 1), made.kernel(90, 10, 3)]
        for path, unit in ((export.path, 1), (kineto(events), 1000)):
            found = figures(path)
            assert [(own.memsets, own.busy_ns, own.idle_ns, own.kernel_union_ns) for own in found.devices] == [
                (None, None, None, 20 * unit)
            ]
            assert found.gaps == ()
            assert unsaid(found, "busy, idle") == ["1 calls set memory and no memset is in the capture"]
        export.add("CUPTI_ACTIVITY_KIND_MEMSET", start=40, end=50, deviceId=0, streamId=7, correlationId=9)
        assert [(own.memsets, own.busy_ns) for own in figures(export.path).devices] == [(1, 30)]

    def test_work_of_an_unknown_device_is_no_idle_time_of_the_others(self, cut):
        found = cut("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId")
        assert {(own.device, own.idle_ns, own.kernel_union_ns) for own in found.devices} == {
            ("0", None, None), ("unknown", None, 20),
        }  # fmt: skip
        assert unsaid(found, "busy, idle") == ["2 kernels, copies and memsets do not tell their device"]

    def test_the_whole_export_tells_it(self, cut):
        assert [(own.busy_ns, own.idle_ns) for own in cut("SELECT 1").devices] == [(50, 50)]

    def test_calls_without_times_are_none(self, cut):
        found = cut("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN start")
        assert unsaid(found, "calls")
