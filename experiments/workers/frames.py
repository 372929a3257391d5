"""Messages between a driver and its workers: JSON in frames that show when something else got between them.

b"SSW1"  length u32  crc32 u32  payload
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

_HEAD = struct.Struct("<4sII")
_MAGIC = b"SSW1"
MAX_BYTES = 1 << 28


class GarbageError(Exception):
    """What came is no frame of ours."""


def encode(message: Mapping[str, Any]) -> bytes:
    """One frame."""
    payload = json.dumps(message).encode()
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


class Decoder:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def pending(self) -> bool:
        """Whether a frame was begun and has not ended."""
        return bool(self._bytes)

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Messages that are whole now. Raises GarbageError."""
        self._bytes += data
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> dict[str, Any] | None:
        if len(self._bytes) < _HEAD.size:
            if not _MAGIC.startswith(bytes(self._bytes[:4])):
                raise GarbageError(f"expected a message, got {bytes(self._bytes[:40])!r}")
            return None
        magic, length, checksum = _HEAD.unpack_from(self._bytes)
        if magic != _MAGIC or length > MAX_BYTES:
            raise GarbageError(f"expected a message, got {bytes(self._bytes[:40])!r}")
        end = _HEAD.size + length
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[_HEAD.size : end])
        del self._bytes[:end]
        if zlib.crc32(payload) != checksum:
            raise GarbageError("a message does not match its checksum")
        try:
            message = json.loads(payload)
        except ValueError as error:
            raise GarbageError(f"a message is not JSON ({error})") from error
        if not isinstance(message, dict):
            raise GarbageError(f"a message is {type(message).__name__}, expected a mapping")
        return message
