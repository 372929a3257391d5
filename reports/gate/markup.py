"""Names inside Markdown that GitHub renders: no link, no mention, no cell's end and no tag comes out of a name."""

from __future__ import annotations

import re

from .characters import readable, shortened

_SPECIAL = re.compile(r"[&<>|`*_\[\]\\~#@$]|:(?=/)|\.(?!\d)|(?<!\d)\.")
_NAME, _SENTENCE = 160, 1000
"""Characters that are shown of one; what is longer ends in a hash."""


def code(text: str) -> str:
    """`text` as a code span for a table cell or a sentence."""
    return f"<code>{plain(text, _NAME)}</code>"


def plain(text: str, limit: int = _SENTENCE) -> str:
    """`text` with every character that Markdown, GitHub or HTML may read as more than itself written as an entity."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", shortened(readable(text), limit))
