"""Names as one visible line: what a terminal, an XML reader or a page would act on is written out instead.

    "a\\nb" → "a\\\\nb"    "\\x1b[31m" → "\\\\x1b[31m"    a text that turns its direction (U+202E) → "\\\\u202e"
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def readable(text: str) -> str:
    """`text` with every character that does not print, a lone surrogate too, as its escape. Twice is as once."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def shortened(text: str, limit: int) -> str:
    """`text`, or its head and a hash of all of it where it is longer than `limit` characters: still its own name."""
    if len(text) <= limit:
        return text
    tail = f"…{_hash(text)}"
    return text[: limit - len(tail)] + tail


def distinct(texts: Iterable[str]) -> dict[str, str]:
    """A readable name for each text; those that would become the same get a hash of what they were."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for text in sorted(set(texts), key=lambda text: (text != readable(text), text)):  # who is readable keeps its name
        name = readable(text)
        names[text] = f"{name} ({_hash(text)})" if name in taken else name
        taken.add(names[text])
    return names


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
