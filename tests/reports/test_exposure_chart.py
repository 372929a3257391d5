"""How often which exposure occurred: of all copies, and not of those that are drawn beside it."""

from __future__ import annotations

import numpy as np
from stepscope.reports.figures.copies import Bin, CopyPoints, course_figure
from stepscope.reports.views.copies import gather_copies

POINTS = CopyPoints((0,), (None,), (None,), (None,))


def drawn(*bins):
    figure = course_figure(POINTS, bins)
    (bars,) = (trace for trace in figure.data if trace["type"] == "bar")
    return bars, figure.layout["xaxis2"]["type"]


def test_equal_exposures_have_a_bar_named_by_their_value_and_no_width():
    # 0 was drawn from 0.1 to 0.9 us
    bars, axis = drawn(Bin(0, 0, 988))
    assert (bars["x"], bars["y"], axis) == (["0"], [988], "category")
    assert "width" not in bars


def test_a_bar_is_as_wide_as_its_bin():
    bars, axis = drawn(Bin(0, 2_000, 7), Bin(2_000, 4_000, 1))
    assert (bars["x"], bars["width"], bars["y"], axis) == ([1, 3], [2, 2], [7, 1], "linear")


def test_every_copy_is_counted_also_where_not_every_one_is_drawn(recordings, monkeypatch):
    monkeypatch.setattr("stepscope.reports.views.copies.keep_extremes", lambda values, limit: np.arange(1))
    view = gather_copies(recordings())
    assert len(view.points) == 1
    assert int(view.bins["copies"].sum()) == view.figure("exposed").n > 1


def test_without_known_exposures_no_half_of_the_chart_is_empty():
    layout = course_figure(POINTS).layout
    assert "xaxis2" not in layout
    assert layout["xaxis"]["domain"] == [0.0, 1]


def test_a_recording_without_copies_says_so_once(pages):
    text = pages("no_steps", "text").split("The block-table copy: exposed and hidden\n", 1)[1]
    section = text.split("Pinned buffers\n")[0]
    assert "no copy of the buffer was recorded in a counted step" in section
    assert "not measured [" not in section
