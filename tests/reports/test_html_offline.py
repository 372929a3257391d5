"""The HTML file opens without a network (case 47), carries Plotly once, and every figure in it is a valid one."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs
from stepscope.reports.document import Chart, Figure
from stepscope.reports.html import figures_json

MAX_BYTES = 8_000_000


def figures(page: str) -> dict[str, list[dict[str, object]]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, flags=re.DOTALL)
    assert found
    return json.loads(found.group(1))


@pytest.fixture(params=["recording", "sweep"])
def page(request, pages):
    return pages(request.param, "html")


def test_nothing_is_loaded_from_anywhere(page):
    # GIVEN the page without the text of the bundle (which mentions a CDN and draws nothing from it)
    rest = page.replace(get_plotlyjs(), "")
    # THEN no tag asks for anything outside the file
    assert not re.findall(r"<script[^>]*\bsrc=", rest)
    assert not re.findall(r"<link[^>]*\brel=\"?stylesheet", rest)
    assert re.findall(r"<link[^>]*>", rest) == ['<link rel="icon" href="data:,">']
    assert not re.findall(r"@import|url\(|https?://|MathJax", rest)


def test_plotly_is_there_exactly_once_with_many_figures(page):
    assert len(figures(page)) >= 3
    assert page.count(get_plotlyjs()) == 1
    assert page.count("<script") == 3 + get_plotlyjs().count("<script")
    assert len(page.encode()) < MAX_BYTES


def test_a_page_without_charts_has_no_plotly(pages):
    page = pages("index", "html")
    assert len(page) < 30_000
    assert 'href="one.html"' in page


def test_every_figure_is_one_that_plotly_accepts(page):
    for choices in figures(page).values():
        for choice in choices:
            figure = go.Figure({"data": choice["data"], "layout": choice["layout"]})  # raises for an unknown property
            assert len(figure.data) > 0
            assert choice["height_px"] >= 120


def test_every_chart_has_a_place_and_its_choices_a_list(page):
    for name, choices in figures(page).items():
        assert page.count(f'data-chart="{name}"') == 1
        block = page.split(f'data-chart="{name}"')[1].split("</figure>")[0]
        assert block.count("<option") == (len(choices) if len(choices) > 1 else 0)


def test_figure_data_cannot_close_the_script():
    chart = Chart("c", "t", (("x", Figure(({"name": "</script><b>", "y": [1]},))),))
    text = figures_json((chart,))
    assert "</" not in text
    assert json.loads(text)["c"][0]["data"][0]["name"] == "</script><b>"


def test_figure_data_with_nan_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        figures_json((Chart("c", "t", (("x", Figure(({"y": [float("nan")]},))),)),))


def test_reports_do_not_import_torch():
    code = "import sys, stepscope.reports; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
