"""The gate's verdict as plain text, for a terminal: nothing is escaped for a format that nobody renders there."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.gate.result import GateResult
from ..text import render_text
from .page import gate_document

_SHOWN = ("verdict", "points")


def render_terminal(result: GateResult) -> str:
    """The page's verdict and its table of points; ends with a newline."""
    document = gate_document(result)
    sections = tuple(replace(one, brief=True) for one in document.sections if one.id in _SHOWN)
    return render_text(replace(document, sections=sections))
