"""The page of a sweep (being built)."""

from __future__ import annotations

from ..document import Document
from ..views.sweep import SweepView


def sweep_document(sweep: SweepView) -> Document:
    """The sweep's page."""
    return Document(sweep.name, "", ())
