"""The exact words of a hand-made recording and a hand-made sweep, as text and as Markdown.

To accept a change: STEPSCOPE_WRITE_GOLDEN=1 pytest tests/reports/test_golden_texts.py, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("kind", ["recording", "sweep", "index"])
@pytest.mark.parametrize("format_", ["text", "md"])
def test_page_reads_word_for_word(pages, kind, format_):
    text = pages(kind, format_)
    path = GOLDEN / f"{kind}.{format_}"
    if os.environ.get("STEPSCOPE_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
