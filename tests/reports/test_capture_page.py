"""The page of a capture: answers, charts and tables, with what each rests on and what cannot be said."""

import json
import re
from pathlib import Path

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.instrumentation.sources import read_capture
from stepscope.reports import render_capture
from stepscope.reports.document import Chart, Missing, Table, Words
from stepscope.reports.pages import capture_host
from stepscope.reports.pages.capture import capture_document
from stepscope.reports.views.capture_timeline import capture_timelines

US = 1_000


def page(path):
    capture = read_capture(path)
    figures = capture_figures(capture.tables, capture.meta)
    return capture_document(figures, "capture", capture_timelines(capture.tables, figures))


def section(document, id_):
    return next(own for own in document.sections if own.id == id_)


def words(found):
    return [block.text for block in found.blocks if isinstance(block, Words)]


def rows_of(found, place=0):
    """A table's rows as dicts by column title."""
    table = [block for block in found.blocks if isinstance(block, Table)][place]
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row.cells, strict=True)) for row in table.rows]


@pytest.fixture
def two_steps(export):
    """Two steps of vLLM, 200 µs each: a pageable copy under preprocess, a kernel of 100 µs, one without its call."""
    for number in range(2):
        at = number * 250 * US
        export.range(at, at + 200 * US, "execute_context_0(0)_generation_8(8)")
        export.range(at + 5 * US, at + 50 * US, "gpu_model_runner: preprocess")
        export.call(at + 10 * US, at + 40 * US, "cudaMemcpyAsync_v3020", correlation=10 + number)
        export.copy(at + 12 * US, at + 38 * US, correlation=10 + number, size=4096)
        export.range(at + 60 * US, at + 90 * US, "gpu_model_runner: forward")
        export.call(at + 62 * US, at + 70 * US, "cudaLaunchKernel_v7000", correlation=20 + number)
        export.kernel(at + 80 * US, at + 180 * US, correlation=20 + number)
    export.kernel(480 * US, 490 * US, correlation=99, name="stray")
    return export.path


def test_answers_rest_on_a_share_of_the_capture(two_steps):
    busy, copies, idle, waits = section(page(two_steps), "headline").blocks
    # from the first copy's start (12) to the stray kernel's end (490); 2 * (26 + 100) + 10 busy
    assert busy.answer == "Device 0 idled 45.2 % of 478 µs."
    assert dict(busy.figures)["rests on"] == "every row with usable times: 5"
    assert copies.answer.startswith("2 copies of pageable memory (8 KiB). Device 0: 52.0 µs, 10.9 % of its window; 0 %")
    assert dict(copies.figures)["under index building"].value == 52 * US
    assert isinstance(dict(copies.figures)["exposed"], Missing)
    assert dict(idle.figures)["rests on"] == "device work with its call: 4 of 5 (80.0 %)"
    assert waits.answer.startswith("2 asynchronous copies of pageable memory blocked the host for 60.0 µs.")


def test_every_section_says_what_it_rests_on(two_steps):
    document = page(two_steps)
    told = {own.id: [text for text in words(own) if text.startswith("Rests on: ")] for own in document.sections}
    for id_ in ("gaps", "copies", "pageable", "phases", "steps", "graphs", "queue", "ranges"):
        assert len(told[id_]) == 1, id_
    assert told["steps"] == ["Rests on: device work in a step: 4 of 5 (80.0 %)."]
    assert words(section(document, "copies"))[-1].startswith("Cannot say how much of a copy is exposed, because")


def test_no_thread_is_named_where_none_was_recorded(export):
    # GIVEN two kernels with a gap between them, and nothing of the host
    export.kernel(0, 10 * US, correlation=1)
    export.kernel(30 * US, 40 * US, correlation=2)
    gaps = section(page(export.path), "gaps")
    assert words(gaps)[0].startswith("Device 0: whether the host was late cannot be said")
    assert [block.caption for block in gaps.blocks if isinstance(block, Table)] == ["Longest gaps of device 0"]
    assert not [block for block in gaps.blocks if isinstance(block, Chart)]


def test_charts_show_the_parts_of_the_window(two_steps):
    (chart,) = [block for block in section(page(two_steps), "devices").blocks if isinstance(block, Chart)]
    ((_, figure),) = chart.choices
    assert {trace["name"]: trace["x"] for trace in figure.data} == {
        "kernels": [210.0], "copies and memsets alone": [52.0], "idle": [216.0],
    }  # fmt: skip


def test_timelines_are_clipped_to_the_step(two_steps):
    capture = read_capture(two_steps)
    lines = capture_timelines(capture.tables, capture_figures(capture.tables, capture.meta))
    assert [(line.step, line.start_ns, line.end_ns) for line in lines][:1] == [(0, 0, 200 * US)]
    bars = {(bar.row, bar.name): bar for bar in lines[0].bars}
    assert bars["device 0, stream 7", "gemm"].phase == "forward"
    assert bars["host:1001 ranges, level 2", "gpu_model_runner: preprocess"].phase == "preprocess"
    assert bars["device 0, stream 7, copies", "h2d pageable to device"].own
    assert all(0 <= bar.start_ns <= bar.end_ns <= 200 * US for bar in lines[0].bars)


def test_a_step_is_as_long_as_its_work_beside_the_period_that_the_page_tells(two_steps):
    chart = section(page(two_steps), "timeline").blocks[0]
    # both steps are alike, so the one stands for median and longest
    assert chart.hint.startswith("Step 0, median: 200 µs until its last work. Ranges and kernels have the colour of")


def test_the_saved_recording_has_the_same_timelines(two_steps, tmp_path):
    from stepscope.instrumentation.recording import Recording

    capture = read_capture(two_steps)
    figures = capture_figures(capture.tables, capture.meta)
    loaded = Recording.load(capture.save(tmp_path / "r"))
    assert capture_timelines(loaded.tables, figures) == capture_timelines(capture.tables, figures)


def test_without_steps_the_longest_gap_is_shown(export):
    for start in (0, 100 * US, 700 * US):
        export.kernel(start, start + 10 * US)
    document = page(export.path)
    chart = section(document, "timeline").blocks[0]
    ((label, figure),) = chart.choices
    assert label == "around the longest gap: 1.18 ms"
    # a single window has no list to be chosen from, and no phases
    assert chart.hint == "Around the longest gap: 1.18 ms. Drag to zoom, double-click to go back."
    assert figure.layout["xaxis"]["title"]["text"] == "time since the window's start [µs]"


def test_a_capture_without_a_device_has_no_figures_of_one(export):
    for start in range(0, 1000, 100):
        export.range(start * US, (start + 60) * US, "reader")
        export.range((start + 60) * US, (start + 90) * US, "head")
    document = page(export.path)
    # sections that could only say so are left out, and why stands in the coverage
    assert [own.id for own in document.sections] == ["verdict", "timeline", "steps", "ranges", "coverage", "about"]
    assert rows_of(section(document, "coverage"), 1)[0]["because"] == "the capture has no kernels"
    assert "busy" not in rows_of(section(document, "steps"))[0]
    assert "device operations" not in rows_of(section(document, "ranges"))[0]
    assert "inferred from ranges that repeat" in document.subtitle


def test_whole_graphs_are_busy_and_their_kernels_are_not_claimed(export):
    export.call(0, 10 * US, "cudaGraphLaunch_v10000", correlation=1)
    export.add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=5 * US, end=50 * US, deviceId=0, contextId=1, streamId=7,
        correlationId=1, globalPid=(1 << 48) | (1001 << 24), graphId=1, graphExecId=2,
    )  # fmt: skip
    document = page(export.path)
    assert "Replays of whole graphs count as busy." in section(document, "headline").blocks[0].answer
    (launch,) = rows_of(section(document, "graphs"))
    assert launch["kernels a launch"] == Missing("graphs were traced whole, without their kernels")
    assert any("--cuda-graph-trace=node" in text for text in words(section(document, "devices")))


def test_the_first_answer_tells_what_nsys_says_it_lost(export):
    export.kernel(0, 10 * US)
    export.kernel(20 * US, 30 * US)
    export.add("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
    busy = section(page(export.path), "headline").blocks[0]
    told = "every row with usable times: 2; nsys: not all CUDA events may be there"
    assert dict(busy.figures)["rests on"] == told


def test_without_calls_no_chart_of_steps_is_drawn(export):
    """Nobody knows which step launched what: a chart would have nothing to choose from."""
    for n in range(2):
        export.range(n * 100 * US, (n * 100 + 90) * US, f"execute_context_0(0)_generation_{n}({n})")
        export.kernel((n * 100 + 10) * US, (n * 100 + 30) * US, correlation=n + 1)
    steps = section(page(export.path), "steps")
    assert not [block for block in steps.blocks if isinstance(block, Chart)]
    why = "the capture has no calls of CUDA: nobody knows what the step launched"
    assert rows_of(steps)[0]["kernels"] == Missing(why)


@pytest.mark.parametrize("format_", ["html", "text", "md", "json"])
def test_all_formats_say_the_same(two_steps, format_):
    capture = read_capture(two_steps)
    figures = capture_figures(capture.tables, capture.meta)
    text = render_capture(figures, format_, name="two steps", tables=capture.tables)
    if format_ == "json":
        content = json.loads(text)["content"]
        assert content["devices"][0]["idle_ns"] == 216 * US
        assert content["coverage"][0]["covered"] == 4
    else:
        assert "Device 0 idled 45.2 % of 478 µs." in re.sub(r"</?span[^>]*>", "", text)
        assert "Cannot say" in text


def test_graph_launches_are_counted_however_their_work_was_recorded():
    # GIVEN the captures of one run, with graphs by their kernels and whole
    folder = Path(__file__).resolve().parents[1] / "data" / "captures" / "h200"
    names = ("node.sqlite", "graph.sqlite")
    told = {name: dict(section(page(folder / name), "headline").blocks[0].figures) for name in names}
    # THEN both have launches, and each says what stands for them
    assert told["node.sqlite"]["graph launches"].endswith("kernels recorded one by one)")
    assert told["graph.sqlite"]["graph launches"].endswith("replays recorded whole)")
    assert not any(own["graph launches"].startswith("0") for own in told.values())


def test_a_page_shows_the_longest_of_many_names(kineto, made, monkeypatch):
    # GIVEN more names of kernels and of ranges than a page shows
    monkeypatch.setattr(capture_host, "MOST_NAMES", 3)
    events = [made.kernel(100 * n, 10 + n, n + 1, name=f"k{n}") for n in range(5)]
    events += [made.call(100 * n, 5, "cudaLaunchKernel", n + 1) for n in range(5)]
    events += [made.event("user_annotation", f"r{n}", 100 * n, 50 + n) for n in range(5)]
    document = page(kineto(events))
    # THEN the longest are there, and the page says of how many
    for id_, title, expected in (("names", "name", ["k4", "k3", "k2"]), ("ranges", "range", ["r4", "r3", "r2"])):
        found = section(document, id_)
        assert [row[title] for row in rows_of(found)] == expected
        assert next(block for block in found.blocks if isinstance(block, Table)).note == (
            "The 3 with the longest totals of 5."
        )


def test_of_many_devices_a_page_names_a_dozen_and_sums_up_the_rest(kineto, made):
    # GIVEN 60 devices, one of them busier than the rest
    events = [made.kernel(100 + n, 10, device=n) for n in range(60)]
    events += [made.kernel(200 + n, 10, device=n) for n in range(60)] + [made.kernel(120, 60, device=3)]
    path = kineto(events)
    document = page(path)
    # THEN sentences are about all of them, and tables and bars end
    summed = "60 devices idled 81.8 % of their windows (median; 27.3 % to 81.8 %)."
    assert words(section(document, "devices"))[0] == summed
    assert section(document, "headline").blocks[0].answer.startswith(summed)
    assert len([block for block in section(document, "gaps").blocks if isinstance(block, Table)]) == 12
    assert len(rows_of(section(document, "devices"))) == 60
    capture = read_capture(path)
    text = render_capture(capture_figures(capture.tables, capture.meta), "text", name="many")
    assert "The first 50 of 60 rows; the JSON format has all." in " ".join(text.split())
