"""Files that hold a capture in a shape that is not read here, told from their first bytes: what to unpack them with."""

from __future__ import annotations

import zlib
from pathlib import Path

_HEAD_BYTES = 512
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\x00"
_TAR_AT, _TAR = 257, b"ustar"
_PACKED: tuple[tuple[bytes, str], ...] = (
    (b"\x28\xb5\x2f\xfd", "packed with zstd; unpack it first: zstd -d"),
    (b"PK\x03\x04", "a zip archive; unpack it first: unzip"),
    (b"\xfd7zXZ\x00", "packed with xz; unpack it first: xz -d"),
    (b"BZh", "packed with bzip2; unpack it first: bzip2 -d"),
    (b"\xff\xfe", "text in UTF-16; make it UTF-8 first: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "text in UTF-16; make it UTF-8 first: iconv -f UTF-16 -t UTF-8"),
)


def how_to_unpack(path: Path) -> str | None:
    """ "packed with zstd; unpack it first: zstd -d"; None for a file that is read as it is, or is nothing known.

    A gzip file is read as a trace, unless it holds a data base or an archive. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_GZIP):
        head = _unpacked(head)
        if head.startswith(_SQLITE):
            return "a packed data base (an nsys export, if it is a capture); unpack it first: gunzip"
    if head[_TAR_AT:].startswith(_TAR):
        return "a tar archive; unpack it first: tar -xf"
    return next((words for magic, words in _PACKED if head.startswith(magic)), None)


def _unpacked(head: bytes) -> bytes:
    """As much as the first bytes give."""
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""
