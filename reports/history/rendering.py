"""What was found, in the format that was asked for."""

from __future__ import annotations

from typing import Literal

from ..html import render_html
from ..jsonable import to_json
from ..markdown import render_markdown
from ..text import render_text
from .page import history_document
from .report import history_report
from .view import HistoryView

_WRITERS = {"html": render_html, "text": render_text, "md": render_markdown}


def render_history(view: HistoryView, format_: Literal["html", "text", "md", "json"], name: str) -> str:
    """`view` as text; ends with a newline (HTML as the page's template ends)."""
    if format_ == "json":
        return to_json(history_report(view))
    return _WRITERS[format_](history_document(view, name))
