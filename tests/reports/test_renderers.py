"""Every page in every format: the same demands on all of them."""

from __future__ import annotations

import json
import re
from itertools import takewhile

import pytest
from stepscope.errors import UsageError
from stepscope.reports import FORMATS, SweepPoint, SweepView, render, render_sweep
from stepscope.reports.document import Column, Document, Row, Section, Table
from stepscope.reports.text import TABLE_WIDTH, render_text

# What a value that slipped through unformatted would look like.
_SLIPS = re.compile(r"\bnan\b|\bNaN\b|\binf\b|Infinity|<NA>|\bNone\b|Quantity\(|Missing\(")
NAMES = {
    "recording": "by hand", "measured": "by device", "no_steps": "nothing", "one_step": "single",
    "sweep": "sweep by hand", "failed_sweep": "all failed", "index": "folder", "empty_index": "bare",
}


def visible(text: str, format_: str) -> str:
    """The text without scripts and styles."""
    if format_ != "html":
        return text
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


@pytest.fixture(params=FORMATS)
def format_(request):
    return request.param


@pytest.fixture(params=NAMES)
def kind(request):
    return request.param


def test_page_names_its_subject_and_leaks_no_raw_null(pages, kind, format_):
    text = pages(kind, format_)
    assert NAMES[kind] in text
    assert text.endswith("\n") or format_ == "html"
    assert not _SLIPS.findall(visible(text, format_))


def test_json_is_strict(pages, kind):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    report = json.loads(pages(kind, "json"), parse_constant=refuse)
    assert list(report) == ["kind", "version", "name", "modelled", "calibration", "content"]
    assert report["name"] == NAMES[kind]


def test_the_same_recording_gives_the_same_page(pages, recordings):
    assert render(recordings(), "md", name="by hand") == pages("recording", "md")


def test_modelled_is_marked_and_measured_is_not(pages, format_):
    # GIVEN the same rows from the model and from a device
    modelled, measured = (visible(pages(kind, format_), format_) for kind in ("recording", "measured"))
    # THEN only the first says modelled, and names the calibration
    assert "modelled" in modelled
    assert "h200" in modelled
    if format_ == "json":
        assert (json.loads(modelled)["modelled"], json.loads(measured)["modelled"]) == (True, False)
    else:
        assert "modelled" not in measured
        assert "h200" not in measured


def test_html_marks_header_captions_and_rows(pages):
    body = visible(pages("recording", "html"), "html")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", body, flags=re.DOTALL)
    from_model = [caption for caption in captions if "Not measured, and why" not in caption]
    assert len(from_model) > 10
    assert all('class="badge"' in caption for caption in from_model)
    assert '<h1>by hand <span class="badge"' in body
    assert body.count('<tr class="modelled">') == body.count('<td class="origin"><span class="badge"') > 30


def test_a_sweep_marks_row_by_row(sweeps):
    points = (*sweeps().points[:1], SweepPoint("m", {"runner.commit_order": "last"}, metrics={"period_p50_ns": 5}))
    text = render_sweep(SweepView("mixed", points), "md")
    rows = [line for line in text.splitlines() if line.endswith(("modelled |", "measured |"))]
    assert [row.split("|")[-2].strip() for row in rows] == ["modelled", "measured"]


def test_missing_values_carry_their_reason(pages, format_):
    assert "nobody profiled the device" in pages("recording", format_)
    assert "out of memory" in pages("sweep", format_)
    assert "only 2 steady steps" in pages("sweep", format_)
    assert "no consumer is declared" in pages("index", format_)
    assert "three/recording.json: is no JSON" in pages("index", format_)


def test_a_recording_without_steps_has_no_blank_section(pages, format_):
    text = visible(pages("no_steps", format_), format_)
    assert format_ == "json" or text.count("Not measured") >= 4


def test_no_heading_stands_over_nothing(pages, kind):
    lines = [line for line in pages(kind, "md").splitlines() if line]
    headings = [i for i, line in enumerate(lines) if line.startswith("## ")]
    assert headings
    assert headings[-1] < len(lines) - 1
    assert not [lines[i] for i in headings if lines[i + 1].startswith("## ")]


def test_a_point_that_failed_was_neither_measured_nor_modelled(pages):
    assert pages("sweep", "html").count('<td class="origin">-</td>') == 1


def test_unknown_format_is_one_line(recordings):
    with pytest.raises(UsageError, match=r"^format 'pdf': unknown; choose one of html, text, md, json$"):
        render(recordings(0), "pdf")


def test_names_cannot_break_out_of_the_page(recordings):
    page = render(recordings(0), "html", name="</title><script>alert(1)</script>")
    assert "<script>alert" not in page
    assert "a\\|b" in render(recordings(0), "md", name="a|b")


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(pages, kind):
    # GIVEN titles with the length of a copy, |C|, in them
    lines = pages(kind, "md").splitlines()
    heads = [at - 1 for at, line in enumerate(lines) if re.fullmatch(r"\|( -+:? \|)+", line)]
    assert heads or kind == "empty_index"
    for head in heads:
        rows = list(takewhile(lambda line: line.startswith("|"), lines[head:]))
        assert len(rows) > 2, rows
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, rows


def test_a_reason_too_long_for_a_line_goes_on_in_the_next_one():
    """Without it the table of what cannot be said would have questions and no reasons."""
    reason = " ".join(f"word{number}" for number in range(40))
    table = Table("cannot say", (Column("what"), Column("because")), (Row(("how much", reason)), Row(("why", "short"))))
    text = render_text(Document("page", "", (Section("s", "section", (table,), brief=True),)))
    assert reason in " ".join(text.split())
    assert "do not fit" not in text
    assert max(map(len, text.splitlines())) <= TABLE_WIDTH
