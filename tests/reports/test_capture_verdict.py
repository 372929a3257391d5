"""The first section of a capture's page: what bound the program, in parts that close, and bounds of remedies."""

from __future__ import annotations

from stepscope.analysis.captures.figures import capture_figures
from stepscope.analysis.captures.verdict import capture_verdict
from stepscope.instrumentation.sources import read_capture
from stepscope.reports import capture_brief, render_capture

US = 1_000


def figures_of(path):
    capture = read_capture(path)
    return capture_figures(capture.tables, capture.meta)


def host_bound(export):
    """Two kernels of 10 us, launched one by one; between them 80 us, of which 60 pass before the second call."""
    export.range(0, 100 * US, "gpu_model_runner: preprocess")
    for number, at in enumerate((0, 70 * US)):
        export.call(at, at + 8 * US, "cudaLaunchKernel_v7000", correlation=number + 1)
    export.kernel(0, 10 * US, correlation=1)
    export.kernel(90 * US, 100 * US, correlation=2)
    return export.path


def test_the_window_is_divided_into_parts_that_close(export) -> None:
    found = capture_verdict(figures_of(host_bound(export)))
    assert found.window_ns == 100 * US
    assert found.parts == {"kernels": 20 * US, "copies": 0, "late": 60 * US, "asked": 20 * US, "unknown": 0}
    assert found.bound == "late"
    late, eager = found.remedies
    assert (late.code, late.at_most_ns, late.of_device) == ("late", 60 * US, True)
    assert (eager.code, eager.at_most_ns, eager.count) == ("eager", 8 * US, 2)


def test_the_page_says_it_first(export) -> None:
    text = " ".join(render_capture(figures_of(host_bound(export)), "text").split())
    bound = "Host-bound: the largest part of the devices' time passes before the host asks"
    assert text.index(bound) < text.index("Four")
    assert "(idle, not asked for yet 60.0 %, kernels 20.0 %, idle, asked for 20.0 % of 100 µs)" in text
    assert "2 kernels launched one by one: replay CUDA graphs" in text


def test_copies_beside_no_kernel_bind_and_waits_are_named(export) -> None:
    # GIVEN 90 us of copies to the device, a kernel of 5 us behind them, and a call that waits 2 us for it
    export.call(0, 4 * US, "cudaMemcpyAsync_v3020", correlation=1)
    export.copy(5 * US, 95 * US, correlation=1, size=1 << 20)
    export.call(5 * US, 9 * US, "cudaLaunchKernel_v7000", correlation=2)
    export.kernel(95 * US, 100 * US, correlation=2)
    found = capture_verdict(figures_of(export.path))
    assert found.bound == "copies"
    assert (found.remedies[0].code, found.remedies[0].at_most_ns, found.remedies[0].count) == ("copies", 90 * US, 1)


def test_the_range_of_one_step_is_not_how_long_a_step_takes(export) -> None:
    # GIVEN one step whose host range of 40 us is over long before its kernel ends
    export.range(0, 40 * US, "execute_context_0(0)_generation_1(1)")
    export.call(5 * US, 9 * US, "cudaLaunchKernel_v7000", correlation=1)
    export.kernel(20 * US, 200 * US, correlation=1)
    text = " ".join(render_capture(figures_of(export.path), "text").split())
    assert "The host's range of a step lasts 40.0 µs (median of 1); how often steps come cannot be said" in text
    assert "A step takes" not in text


def test_steps_that_are_not_alike_have_their_mean_beside_the_median(export) -> None:
    # GIVEN six steps, of which every third takes 100 us and the others 30 us, as with tokens that come late
    at = 0
    for number, length in enumerate((100, 30, 30, 100, 30, 30, 30)):
        export.range(at, at + 20 * US, f"execute_context_{number}(0)_generation_1(1)")
        export.call(at + 5 * US, at + 9 * US, "cudaLaunchKernel_v7000", correlation=number + 1)
        export.kernel(at + 10 * US, at + 25 * US, correlation=number + 1)
        at += length * US
    figures = figures_of(export.path)
    found = capture_verdict(figures)
    assert (found.step_p50_ns, found.steps, found.step_mean_ns) == (30 * US, 6, 320 * US / 6)
    text = " ".join(render_capture(figures, "text").split())
    assert "A step takes 30.0 µs (median of 6); on average 53.3 µs: they are not alike, or lean on one another." in text


def test_ranges_alone_are_still_told_by_their_share_of_the_steps(export) -> None:
    # GIVEN ten steps of 100 us with two ranges each, and nothing of a device
    for number in range(10):
        at = number * 110 * US
        export.range(at, at + 75 * US, "find")
        export.range(at + 75 * US, at + 100 * US, "head")
    figures = figures_of(export.path)
    text = render_capture(figures, "text")
    assert "Host ranges only: nothing can be said of a device, because the capture has no kernels." in text
    assert "perf capture -- CMD" in " ".join(text.split())
    row = next(line.split() for line in text.splitlines() if line.startswith("find "))
    assert row[:2] + row[-1:] == ["find", "10", "75.0"]
    # THEN no section that could only repeat that stands there
    assert "Four questions" not in text
    assert "Host time of each step" in render_capture(figures, "html")
    assert "cannot be said" in capture_brief(figures, "x")


def test_a_range_beside_the_steps_takes_none_of_their_time(export) -> None:
    # GIVEN vLLM's steps of 40 us, each inside a longer wait for its result that has another of 30 us behind it
    for number in range(4):
        at = number * 120 * US
        export.range(at, at + 80 * US, "llm_engine step: get_output")
        export.range(at, at + 40 * US, f"execute_context_{number}(0)_generation_1(1)")
        export.range(at + 85 * US, at + 115 * US, "process outputs")
    figures = figures_of(export.path)
    # THEN the first takes the steps whole, never twice, and the last has no part in them
    ranges = {own.name: own for own in figures.ranges}
    waited, after = ranges["llm_engine step: get_output"], ranges["process outputs"]
    assert (waited.total_ns, waited.in_steps_ns, waited.steps_ns) == (320 * US, 160 * US, 160 * US)
    assert (after.total_ns, after.in_steps_ns, after.steps_ns) == (120 * US, 0, 160 * US)
