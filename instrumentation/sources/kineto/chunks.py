"""The bytes of a trace, unpacked where they are packed: what a file is, its first bytes say, not its name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from ....errors import UsageError

GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 17
_PIECE_BYTES = 1 << 19
"""What is unpacked at once; plain files are read so too."""
_AHEAD = 6
_GZIP = zlib.MAX_WBITS | 16


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same, made by another thread while the caller works on the one before: unpacking holds no lock.

    A few pieces may be ahead: the other thread takes a permit for each. A False among them ends it.
    """
    made: SimpleQueue[bytes | Exception] = SimpleQueue()
    permits: SimpleQueue[bool] = SimpleQueue()

    def work() -> None:
        try:
            while permits.get() and (piece := next(pieces, b"")):
                made.put(piece)
            made.put(b"")
        except Exception as error:  # noqa: BLE001 - raised again where the pieces are read
            made.put(error)

    for _ in range(_AHEAD):
        permits.put(True)
    other = Thread(target=work, name="unpacking", daemon=True)
    other.start()
    try:
        while piece := made.get():
            if isinstance(piece, Exception):
                raise piece
            permits.put(True)
            yield piece
    finally:
        permits.put(False)
        other.join()


class ChunkReader:
    """Pieces of the text. After the last one `damage` says what is wrong with a packed file, None if nothing is.

    A damaged or cut file gives what could be unpacked of it; whether that is good enough the caller decides.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                packed = file.read(2) == GZIP_MAGIC
                file.seek(0)
                pieces = iter(lambda: file.read(_READ_BYTES if packed else _PIECE_BYTES), b"")
                yield from _ahead(self._unpacked(pieces)) if packed else pieces
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read ({error.strerror}); check its path") from error

    def _unpacked(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """All members of the gzip file, one behind the other; padding behind the last one is no member."""
        member = zlib.decompressobj(_GZIP)
        for piece in pieces:
            while piece:
                if member.eof:
                    if not piece.startswith(GZIP_MAGIC[:1]):
                        return
                    member = zlib.decompressobj(_GZIP)
                try:
                    found = member.decompress(piece, _PIECE_BYTES)
                except zlib.error as error:
                    self.damage = f"the gzip data is damaged ({error})"
                    return
                if found:
                    yield found
                piece = member.unused_data if member.eof else member.unconsumed_tail
        if not member.eof:
            self.damage = "the gzip data ends early"
