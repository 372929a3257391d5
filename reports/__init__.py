"""Reports: a recording, a sweep or a folder of recordings as one HTML file, as text, as Markdown or as JSON.

    render(recording, "html")   render_sweep(view, "md")   render_index(entries, "html")

Every function returns the whole text; the caller writes it. Nothing here imports torch.
"""

from __future__ import annotations

from .rendering import (
    FORMATS,
    Format,
    capture_brief,
    page_and_answers,
    render,
    render_capture,
    render_comparison,
    render_index,
    render_sweep,
)
from .views.index import IndexEntry
from .views.sweep import SweepPoint, SweepView

__all__ = [
    "FORMATS", "Format", "IndexEntry", "SweepPoint", "SweepView", "capture_brief", "page_and_answers", "render",
    "render_capture", "render_comparison", "render_index", "render_sweep",
]  # fmt: skip
