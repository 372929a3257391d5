"""The three kinds of pages times the four formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from ..analysis.captures.figures import CaptureFigures
from ..analysis.compare import Comparison
from ..analysis.summary import summarise
from ..errors import UsageError
from .document import Document
from .html import render_html
from .jsonable import to_json
from .markdown import render_markdown
from .pages.capture import capture_document, capture_in_short, capture_summary
from .pages.comparison import comparison_document
from .pages.index import index_document
from .pages.recording import recording_document
from .pages.sweep import sweep_document
from .text import render_text
from .views.capture_timeline import capture_timelines
from .views.index import IndexEntry
from .views.recording import gather_recording
from .views.report import capture_report, comparison_report, index_report, recording_report, sweep_report
from .views.source import RecordingLike
from .views.sweep import SweepView

Format = Literal["html", "text", "md", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)

WRITERS: dict[str, Callable[[Document], str]] = {
    "html": render_html, "text": render_text, "md": render_markdown,
}


ANSWERS = ("verdict", "headline")
"""Sections that answer, before the evidence."""


def render(recording: RecordingLike, format: Format = "html", *, name: str = "recording") -> str:
    """A recording's page. `name` stands in the title. Raises UsageError for a format that there is not."""
    _check(format)
    view = gather_recording(recording, name)
    if format == "json":
        return to_json(recording_report(view, summarise(recording)))
    return WRITERS[format](recording_document(view))


def page_and_answers(recording: RecordingLike, *, name: str = "recording") -> tuple[str, str]:
    """A recording's HTML page, and for a terminal its verdict and answers alone: the tables stand on the page."""
    document = recording_document(gather_recording(recording, name))
    brief = tuple(section for section in document.sections if section.id in ANSWERS)
    return render_html(document), render_text(dataclasses.replace(document, sections=brief))


def render_capture(
    figures: CaptureFigures, format: Format = "html", *, name: str = "capture", tables: Mapping[str, Any] | None = None
) -> str:
    """The page of an imported capture. With its `tables` an HTML page has timelines too."""
    _check(format)
    if format == "json":
        return to_json(capture_report(figures, name))
    if format == "text":
        return WRITERS[format](capture_summary(figures, name))
    timelines = capture_timelines(tables, figures) if tables is not None and format == "html" else ()
    return WRITERS[format](capture_document(figures, name, timelines))


def capture_brief(figures: CaptureFigures, name: str) -> str:
    """What an import prints: the verdict, the four answers, and what cannot be said."""
    return render_text(capture_in_short(figures, name))


def render_comparison(found: Comparison, format: Format = "html", *, name: str = "comparison") -> str:
    """The page of two recordings side by side."""
    _check(format)
    if format == "json":
        return to_json(comparison_report(found, name))
    return WRITERS[format](comparison_document(found, name))


def render_sweep(sweep: SweepView, format: Format = "html") -> str:
    """A sweep's page."""
    _check(format)
    return to_json(sweep_report(sweep)) if format == "json" else WRITERS[format](sweep_document(sweep))


def render_index(entries: Sequence[IndexEntry], format: Format = "html", *, name: str = "recordings") -> str:
    """A page that lists a folder's recordings and links to the page of each."""
    _check(format)
    if format == "json":
        return to_json(index_report(entries, name))
    return WRITERS[format](index_document(entries, name))


def _check(format: str) -> None:
    if format not in FORMATS:
        raise UsageError(f"format {format!r}: unknown; choose one of {', '.join(FORMATS)}")
