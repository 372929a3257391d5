"""What is whole of a damaged list of events: event by event, the broken ones left out and counted.

Known damages: a file cut off in the middle, a quote or a backslash in a name that nobody escaped, a log line between.
Backslashes are mended; an event with a stray quote is lost, and reading goes on at the next one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .events import decode

_NEXT = re.compile(rb'[}\]"\n]\s*,?\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|id|s|bp)"\s*:)')
_END = re.compile(rb'\}\s*(?=\]\s*(?:\}|,\s*"|$))')
_BETWEEN = re.compile(rb"[\s,]*")
_STRAY_BACKSLASH = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4}|)')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_ANY = msgspec.json.Decoder(msgspec.Raw)


@dataclass(slots=True)
class Mended:
    """Events that could be read; how many could not; how many had their backslashes mended; whether the list ends in
    this text, and how many bytes belong to it."""

    events: list[Any] = field(default_factory=list)
    lost: int = 0
    repaired: int = 0
    over: bool = False
    length: int = 0


def mend(text: bytes, *, whole: bool) -> Mended:
    """`text` begins between two events; it ends between two if `whole`, else anywhere: an event that it cuts off is not
    counted as lost."""
    found = Mended(length=len(text))
    view, place = memoryview(text), 0
    while True:
        match = _BETWEEN.match(text, place)
        place = match.end() if match else place
        if place >= len(text):
            return found
        if text[place] == ord("]"):
            found.over, found.length = True, place + 1
            return found
        length = _length(view[place:])
        if length:
            found.events += decode(b"[" + text[place : place + length] + b"]")
            place += length
            continue
        following = _NEXT.search(text, place + 1) or _END.search(text, place + 1)
        if following is None:
            if whole:
                _repair(text[place:], found)
            return found
        _repair(text[place : following.start() + 1], found)
        place = following.end()


def _length(view: memoryview) -> int:
    """Bytes of the JSON value that `view` begins with; 0 where it is none, or not whole."""
    try:
        _ANY.decode(view)
    except RecursionError:
        return 0
    except msgspec.DecodeError as error:
        match = _TRAILING.search(str(error))
        return _checked(view, int(match[1]) - 1) if match else 0
    return _checked(view, len(view))


def _checked(view: memoryview, length: int) -> int:
    """`length` if the value can be decoded: skipping over a value checks less than reading it."""
    try:
        decode(b"[" + bytes(view[:length]) + b"]")
    except (msgspec.DecodeError, ValueError):
        return 0
    return length


def _repair(text: bytes, found: Mended) -> None:
    try:
        found.events += decode(b"[" + _STRAY_BACKSLASH.sub(_escaped, text) + b"]")
        found.repaired += 1
    except (msgspec.DecodeError, ValueError):
        found.lost += 1


def _escaped(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] else rb"\\"
