"""Events of a trace, decoded with only the fields that matter. Numbers with a fraction stay text: no float64.

A chunk in which a field has an unexpected type is decoded once more, leniently: a strange value becomes null there.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Union

import msgspec

from .categories import Category, category_of


class Args(msgspec.Struct, gc=False):
    """Arguments of an event."""

    correlation: int | None = None
    device: int | None = None
    stream: int | None = None
    bytes: int | None = None
    node: int | None = msgspec.field(default=None, name="graph node id")


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """One complete event. ts and dur are microseconds: an int, or the text of a number with a fraction."""

    cat: Category = Category.UNKNOWN
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


_OTHER_PHASES = "fsiIMCBEbenStPNODTpFRcVv"
"""Flows, instants, metadata, counters and what else the format knows: none has a duration, so none is kept."""
_NOT_KEPT = {"cat": Category.UNKNOWN}
_OTHERS = [
    msgspec.defstruct(f"Other_{phase}", [], tag_field="ph", tag=phase, gc=False, namespace=_NOT_KEPT)
    for phase in _OTHER_PHASES
]
_DECODER = msgspec.json.Decoder(list[Union[tuple([Event, *_OTHERS])]], float_hook=str)  # type: ignore[misc]  # noqa: UP007
_ANY = msgspec.json.Decoder(list[Any], float_hook=str)
_CONTROL = json.JSONDecoder(strict=False, parse_float=str, parse_constant=str)
_BARE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf)\b|,(?=\s*\])', re.DOTALL)
"""A string, or a number as C prints one that is none (Python knows these as NaN and Infinity only), or a comma behind
the last of a list."""
_ONE_BYTE_EACH = "stepscope-one-byte-each"
codecs.register_error(_ONE_BYTE_EACH, lambda error: ("?" * (error.end - error.start), error.end))  # type: ignore[attr-defined]


def decode(text: bytes | memoryview) -> list[Any]:
    """The events of a JSON array; what is no complete event is an object of another type with an unknown category.

    Raises msgspec.DecodeError for what is no JSON; places in it are those of `text`.

    Bytes that are no UTF-8, raw control characters and halves of surrogate pairs inside strings, and numbers that are
    none (NaN, inf) break no structure: they are accepted.
    """
    try:
        found: list[Any] = _DECODER.decode(text)
        return found
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
    except msgspec.ValidationError:
        return _lenient(text)
    except msgspec.DecodeError as error:
        if "UTF-8" in str(error):
            return decode(_one_byte_each(text).encode())
        if _harmless(error):
            return _tolerant(text, error)
        raise


def _lenient(text: bytes | memoryview) -> list[Any]:
    """The same, whatever types the fields have; what is no object is left out as an event without a category."""
    try:
        return [_event(value) for value in _ANY.decode(text)]
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None
    except msgspec.DecodeError as error:
        if "UTF-8" in str(error):
            return _lenient(_one_byte_each(text).encode())
        if _harmless(error):
            return _tolerant(text, error)
        raise


def _harmless(error: msgspec.DecodeError) -> bool:
    """Whether what the decoder met may be something that breaks no structure."""
    return "invalid character" in str(error) or "surrogate" in str(error)


def _one_byte_each(text: bytes | memoryview) -> str:
    """The text with a question mark for each byte that is no UTF-8: places in it stay what they are."""
    return bytes(text).decode("utf-8", _ONE_BYTE_EACH)


def _tolerant(text: bytes | memoryview, error: msgspec.DecodeError) -> list[Any]:
    """What Python's own decoder makes of it, which can be told to accept control characters, halves and NaN."""
    content = _one_byte_each(text)
    found = _python_value(content) or _python_value(named_numbers(content))
    if found is None or not isinstance(found[0], list):
        raise error from None
    values, end = found
    rest = content[end:].lstrip(" \t\r\n")
    if rest:
        place = len(content[: len(content) - len(rest)].encode()) + 1
        raise msgspec.DecodeError(f"JSON is malformed: trailing characters (byte {place})") from None
    return [_event(value) for value in values]


def _python_value(content: str) -> tuple[Any, int] | None:
    try:
        return _CONTROL.raw_decode(content)
    except (ValueError, RecursionError):
        return None


def named_numbers(content: str) -> str:
    """nan, -inf as C prints them become NaN, a comma behind the last of a list a blank: all places stay as they are."""
    return _BARE.sub(_readable, content)


def _readable(match: re.Match[str]) -> str:
    if match[0][0] == '"':
        return match[0]
    return " " if match[0] == "," else "NaN".rjust(len(match[0]))


def _event(value: object) -> Event:
    if not isinstance(value, dict) or value.get("ph") != "X":
        return Event()
    args = value.get("args")
    return Event(
        category_of(_text(value.get("cat"))), _text(value.get("name")), _id(value.get("pid")), _id(value.get("tid")),
        value.get("ts"), value.get("dur"), _args(args) if isinstance(args, dict) else None,
    )


def _args(value: dict[str, object]) -> Args:
    return Args(*(_whole(value.get(key)) for key in ("correlation", "device", "stream", "bytes", "graph node id")))


def _text(value: object) -> str:
    """A text that can be written: halves of surrogate pairs become question marks."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _id(value: object) -> int | str | None:
    if isinstance(value, str):
        return _text(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    """An integer, also one that was written as a text or with the fraction 0."""
    if isinstance(value, str):
        digits = value.strip().removesuffix(".0")
        return int(digits) if digits.lstrip("-").isdecimal() and len(digits) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
