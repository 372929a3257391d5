"""Lines of a page do not part a number from its unit, a date, or a switch; what a page says stays what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stepscope import reports
from stepscope.reports.document import Column, Document, Quantity, Row, Section, Table, Words
from stepscope.reports.html import render_html
from stepscope.reports.pages.environment import environment_items
from stepscope.reports.unbroken import unbroken

TEMPLATES = Path(reports.__file__).parent / "templates"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("made 2026-11-30T10:53:15+00:00", ["2026-11-30T10:53:15+00:00"]),
        ("driver 580.159.04, 2026-11-30, shape", ["2026-11-30"]),
        ("forward 4.35 ms (66.6 %), 1,984 of 2,176; -12 µs", ["4.35 ms", "66.6 %", "-12 µs"]),
        ("perf sweep R --param a=1,2 --param b=c-d", ["--param", "--param"]),
        ("16 KiB of 3.88 MiB in 0 ns", ["16 KiB", "3.88 MiB", "0 ns"]),
        ("run-2026-11-30-1, 5 steps, 3 seconds, a--b, 64 Bytes", []),
    ],
)
def test_pieces_that_stay_together(text: str, kept: list[str]) -> None:
    html = str(unbroken(text))
    assert re.findall(r'<span class="nb">(.*?)</span>', html) == kept
    # AND nothing else changes
    assert re.sub("<.*?>", "", html) == text


def test_html_in_a_text_stays_text() -> None:
    assert str(unbroken("<b> 5 ms & <i>")) == '&lt;b&gt; <span class="nb">5 ms</span> &amp; &lt;i&gt;'


def test_a_page_keeps_its_dates_and_numbers_together() -> None:
    # GIVEN a page with a date in a table, a time in a sentence, and a column with its unit in the title
    row = Row(("2026-11-30T10:53:15", Quantity(5000, "ns")))
    table = Table("Recordings", (Column("made at"), Column("period", "us")), (row,))
    page = render_html(Document("t", "s 3 s", (Section("a", "A", (Words("takes 5 ms"), table)),)))
    # THEN each of the first stands in one piece, and numbers of a column need no such mark
    assert re.findall(r'<span class="nb">(.*?)</span>', page) == ["3 s", "5 ms", "2026-11-30T10:53:15"]
    assert ".nb { white-space: nowrap; }" in page


def test_the_origin_of_a_wide_table_is_never_out_of_sight() -> None:
    style, blocks = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "blocks.html"))
    assert ".origin { position: sticky; right: 0;" in style
    assert blocks.count('class="origin"') == 2


def test_ticks_are_plain_numbers_beside_a_unit() -> None:
    # "12k" beside "time [µs]" would be read as a unit
    assert 'exponentformat: "none"' in (TEMPLATES / "page.js").read_text(encoding="utf-8")


def test_no_reason_is_missed_where_there_is_nothing_to_explain() -> None:
    items = dict(environment_items({"pin_memory": True, "pin_memory_reason": None, "nvml": None, "nvml_reason": "no"}))
    assert list(items) == ["page-locked memory is to be had", "NVML: ok or unavailable", "why NVML is unavailable"]
