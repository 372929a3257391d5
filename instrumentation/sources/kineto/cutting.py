"""A trace cut into lists of events, while it is read: memory is that of one chunk, not of the file.

A chunk is cut behind a `}` that looks like the end of an event. Whether it is one the decoder says: a piece that
starts between two events and is valid inside brackets ends between two events, or it would not be valid. Likewise the
text before `"traceEvents": [` is the head of the file only if it is valid once it is closed.

The brackets are written into the buffer itself, over the commas: its first byte is `[` from the head of the file on,
and a chunk is decoded where it lies. Copying each chunk between brackets would cost as much as unpacking a fifth of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ....errors import UsageError
from .chunks import ChunkReader
from .events import decode, named_numbers
from .mending import Mended, mend

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|args|pid|tid|ts|id)"')
_COMMA = re.compile(rb"\s*,")
_OFFSET = re.compile(r"\(byte (\d+)\)")
_EMPTY = re.compile(r'"(?:[^"\\]|\\.)*"|:\s*(?=[,}])', re.DOTALL)
_HEAD = msgspec.json.Decoder(dict[str, Any], float_hook=str)
_TRIES = 16
_MIN_BYTES = 1 << 21
_MAX_HEAD_BYTES = 1 << 27


class EventStream:
    """Lists of events; afterwards `metadata`, and of a salvaged file what was lost.

    salvage   take what is whole of a damaged or cut file; otherwise such a file is a UsageError that names the byte
    lost      events that were damaged; `repaired`: events whose backslashes were mended
    truncated whether the file ends before its list of events does
    """

    def __init__(self, chunks: ChunkReader, *, salvage: bool) -> None:
        self._chunks = chunks
        self._pieces = iter(chunks)
        self._salvage = salvage
        self._buffer = bytearray()
        self._bracket = 0
        self._offset = 0
        self._ended = False
        self._read = 0
        self._commas = 0
        self._open = False
        self.metadata: dict[str, Any] = {}
        self.lost = 0
        self.repaired = 0
        self.truncated = False

    def __iter__(self) -> Iterator[list[Any]]:
        if not self._read_head():
            return
        between = b"},"
        while True:
            self._fill(_MIN_BYTES)
            found = _BETWEEN.search(self._buffer)
            between = found[0] if found else between
            cut = self._cut(between)
            if cut is None:
                if not self._ended:
                    self._fill(2 * len(self._buffer))
                    continue
                yield self._last()
                return
            events, length, over = cut
            self._read += len(events)
            yield events
            self._consume(length)
            if over:
                self._read_tail()
                return

    def _fill(self, wanted: int) -> None:
        """More bytes, until the buffer has `wanted` or the file ends."""
        parts: list[bytes | bytearray] = [self._buffer]
        size = len(self._buffer)
        while size < wanted and not self._ended:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                self._check_packing()
            else:
                parts.append(piece)
                size += len(piece)
        if len(parts) > 1:
            self._buffer = bytearray().join(parts)

    def _check_packing(self) -> None:
        damage = self._chunks.damage
        if damage is None:
            return
        self.truncated = True
        if not self._salvage:
            raise UsageError(f"{self._chunks.path}: {damage}; perf import --salvage reads what is whole")

    def _consume(self, place: int) -> None:
        """Drop what stands before a place of the buffer; a bracket stands there instead. `_offset` is the file's byte
        that the buffer goes on with behind that bracket."""
        self._offset += place - self._bracket
        self._buffer = bytearray(b"[") + memoryview(self._buffer)[place:]
        self._bracket = 1

    def _decoded(self, stop: int) -> list[Any]:
        """The events before a place of the buffer, which holds the closing bracket for as long as that takes."""
        kept = self._buffer[stop]
        self._buffer[stop] = ord("]")
        try:
            with memoryview(self._buffer) as view, view[: stop + 1] as part:
                return decode(part)
        finally:
            self._buffer[stop] = kept

    def _cut(self, between: bytes) -> tuple[list[Any], int, bool] | None:
        """(events, place behind them, whether the list ends there); None where no cut was found in the buffer."""
        stop = len(self._buffer)
        for _ in range(_TRIES):
            end = self._buffer.rfind(between, 0, stop)
            if end < 0:
                return None
            try:
                return self._decoded(end + 1), end + 1 + _comma(self._buffer, end + 1), False
            except msgspec.DecodeError as error:
                place = _place(error, end)
                if self._without_comma(error, place):
                    continue
                if "trailing characters" in str(error):
                    return decode(bytes(self._buffer[:place])), place, True
                if place < end:
                    return self._mended(end + 1, place, error)
            stop = end
        return None

    def _without_comma(self, error: msgspec.DecodeError, place: int) -> bool:
        """Whether the decoder met a comma behind the last of a list, which is blanked then: some writers leave one
        behind the last event, and nothing is lost by it. `_TRIES` times a file: then the file is a damaged one."""
        if "trailing comma in array" not in str(error) or self._commas >= _TRIES:
            return False
        comma = self._buffer.rfind(b",", 0, place + 1)
        if comma < 0 or bytes(self._buffer[comma + 1 : place + 1]).strip() not in (b"", b"]"):
            return False
        self._commas += 1
        self._buffer[comma] = ord(" ")
        return True

    def _mended(self, stop: int, place: int, error: msgspec.DecodeError) -> tuple[list[Any], int, bool]:
        found = self._mend(stop, place, error, whole=True)
        if found.over:
            return found.events, 1 + found.length, True
        return found.events, stop + _comma(self._buffer, stop), False

    def _mend(self, stop: int, place: int, error: msgspec.DecodeError, *, whole: bool) -> Mended:
        """What is whole of the buffer before `stop`; `place` is where the decoder met the damage."""
        if not self._salvage:
            event = self._around(place)
            raise UsageError(
                f"{self._chunks.path}: not valid JSON at byte {self._offset + place - 1}{event} ({_reason(error)}); "
                "perf import --salvage reads what is whole"
            )
        found = mend(bytes(self._buffer[1:stop]), whole=whole)
        self.lost += found.lost
        self.repaired += found.repaired
        return found

    def _around(self, place: int) -> str:
        """The event that a byte of the buffer lies in, by its beginning."""
        start = max((match.end() for match in re.finditer(rb"\}\s*,\s*(?=\{)", self._buffer[:place])), default=0)
        number = self._read + len(_BETWEEN.findall(self._buffer[:place])) + 1
        name = re.search(rb'"name"\s*:\s*"([^"\\]{0,60})', self._buffer[start : start + 4096])
        return f", in event {number}, {name[1].decode('utf-8', 'replace')!r}" if name else ""

    def _last(self) -> list[Any]:
        """The rest of the file: the last events, the end of their list, and what stands behind it."""
        text = bytes(self._buffer)
        try:
            events = decode(text)
            self._consume(len(text))
            self._read_tail()
            return events
        except msgspec.DecodeError as error:
            place = _place(error, len(text))
            if self._without_comma(error, place):
                return self._last()
            if "trailing characters" in str(error):
                events = decode(text[:place])
                self._consume(place)
                self._read_tail()
                return events
            found = self._mend(len(text), min(place, len(text)), error, whole=False)
            if found.over:
                self._consume(1 + found.length)
                self._read_tail()
            else:
                self.truncated = True
            return found.events

    def _read_head(self) -> bool:
        """Metadata before the events; afterwards the buffer begins with the first event. False: nothing to read."""
        self._fill(_MIN_BYTES)
        start = self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(b"["):
            self._consume(self._buffer.index(b"[") + 1)
            return True
        if not start.startswith(b"{"):
            raise UsageError(f"{self._chunks.path}: no JSON of a PyTorch profiler trace (it begins with no {{ or [)")
        tried = 0
        while True:
            for match in _EVENTS_KEY.finditer(self._buffer, tried):
                tried = match.end()
                head = _object(bytes(self._buffer[: match.start()]).lstrip(b"\xef\xbb\xbf \t\r\n"))
                if head is not None or self._salvage:
                    self.metadata.update(head or {})
                    self._consume(match.end())
                    self._open = True
                    return True
            if self._ended or len(self._buffer) > _MAX_HEAD_BYTES:
                return self._no_events()
            tried = max(tried, len(self._buffer) - 64)
            self._fill(2 * len(self._buffer))

    def _no_events(self) -> bool:
        if self._salvage and self.truncated:
            return False
        raise UsageError(
            f"{self._chunks.path}: has no list traceEvents, or is not valid JSON before it "
            f"({len(self._buffer)} bytes read); perf import --salvage takes the events alone"
        )

    def _read_tail(self) -> None:
        """Metadata behind the events, the base of all times among it. It must close what the head opened."""
        self._fill(1 << 62)
        rest = bytes(self._buffer[self._bracket :]).strip()
        if not rest and not self._open:
            return
        tail = _object(b'{"":0' + rest.removesuffix(b"}")) if rest.endswith(b"}") else None
        if tail is not None:
            tail.pop("", None)
            self.metadata.update(tail)
        elif self._salvage:
            self.truncated = True
        else:
            raise UsageError(
                f"{self._chunks.path}: not valid JSON behind byte {self._offset}, the end of traceEvents; "
                "perf import --salvage reads what is whole"
            )


def _object(text: bytes) -> dict[str, Any] | None:
    """The object that `text` opens and does not close; None where it is no JSON. Some writers leave a value empty, or
    write NaN: such a value becomes null. Numbers with a fraction stay text."""
    body = text.rstrip().removesuffix(b",") + b"}"
    try:
        return _HEAD.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _tolerant_object(body.decode("utf-8", "replace"))


def _tolerant_object(text: str) -> dict[str, Any] | None:
    filled = _EMPTY.sub(lambda match: match[0] if match[0][0] == '"' else ":null", named_numbers(text))
    try:
        found = json.loads(filled, strict=False, parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _comma(buffer: bytearray, place: int) -> int:
    """Bytes from `place` up to and with the comma there."""
    match = _COMMA.match(buffer, place)
    return match.end() - place if match else 0


def _place(error: msgspec.DecodeError, otherwise: int) -> int:
    """Index of the byte that does not fit; msgspec counts what trails from 1, everything else from 0."""
    match = _OFFSET.search(str(error))
    if match is None:
        return otherwise
    return int(match[1]) - ("trailing" in str(error))


def _reason(error: msgspec.DecodeError) -> str:
    return _OFFSET.sub("", str(error)).replace("JSON is malformed: ", "").strip()
