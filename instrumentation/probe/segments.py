"""Append-only binary segments: how rows leave a running engine.

    file    MAGIC, uint16 version, then records
    record  uint32 payload length, uint32 CRC-32 of the payload, payload
    payload JSON, UTF-8: {"t": table, "r": [row, ...]}, or {"dropped": rows, "closed": bool}

All integers are little-endian. JSON keeps integers of any size exact and loading it runs no code. A record that is
short, or whose CRC is wrong, ends the file: what follows it is cut and counted. Version history: 1 first layout.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .ledger import Row

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"STEPSEG\n"
VERSION = 1
CAPACITY_BYTES = 64 * 1024 * 1024
FLUSH_INTERVAL_NS = 1_000_000_000
CHUNK_ROWS = 256
"""Rows in a record: small, so that encoding one holds the interpreter lock for well under a millisecond."""
WRITE_BYTES = 256 * 1024
"""Records are joined to writes of about this size."""

_VERSION = struct.Struct("<H")
_RECORD = struct.Struct("<II")
_VALUE_BYTES = 40  # what a value of a row takes in memory, tuple slot included; an estimate for the bound only


_Part = tuple[str, Sequence[Row], int]  # table, rows, the bytes that they are taken to hold


class SegmentError(ValueError):
    """The file is no segment file, or one of a version that we do not know."""


@dataclass(slots=True)
class SegmentContent:
    """What was read. `closed` is True when the writer ended properly; `torn_bytes` were cut off the end."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    dropped_rows: int = 0
    torn_bytes: int = 0
    closed: bool = False


def _plain(value: Any) -> Any:
    """NumPy scalars, which JSON does not know, as Python's."""
    return value.item() if hasattr(value, "item") else str(value)


def _record(payload: dict[str, Any]) -> bytes:
    data = json.dumps(payload, default=_plain, separators=(",", ":")).encode()
    return _RECORD.pack(len(data), zlib.crc32(data)) + data


class SegmentWriter:
    """Rows in memory, a thread of its own that encodes and writes them.

    Nothing here blocks or raises into the caller once the file is open: rows beyond `capacity_bytes` in memory are
    dropped and counted, and so is what the disk refuses. The file gets the count with its next good record. The thread
    sleeps between flushes, so it takes the interpreter lock only for a short burst after each one.
    """

    def __init__(
        self, path: Path | str, *, capacity_bytes: int = CAPACITY_BYTES, flush_interval_ns: int = FLUSH_INTERVAL_NS
    ) -> None:
        self.dropped_rows = 0
        self._capacity = capacity_bytes
        self._interval_ns = flush_interval_ns
        self._next_flush_ns: int | None = None
        self._gathered: list[_Part] = []
        self._handed: deque[list[_Part]] = deque()
        self._held_bytes = 0
        self._lock = threading.Lock()  # guards the byte and drop counts, which both threads change
        self._wake = threading.Event()
        self._closing = False
        self._end = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            _take_over(self._fd)
        except OSError as error:
            os.close(self._fd)
            raise OSError(error.errno, "another process writes it", str(path)) from error
        if not self._put(MAGIC + _VERSION.pack(VERSION)):
            os.close(self._fd)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self._thread = threading.Thread(target=self._run, name="stepscope-segments", daemon=True)
        self._thread.start()

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """Take rows of one table. They are kept until the next flush, and must not change any more."""
        size = len(rows) * len(rows[0]) * _VALUE_BYTES if rows else 0
        with self._lock:
            if self._held_bytes + size > self._capacity:
                self.dropped_rows += len(rows)
                return
            self._held_bytes += size
        self._gathered.append((table, rows, size))

    def flush_if_due(self, now_ns: int) -> None:
        """Flush when the interval has passed on the caller's clock since the last time; the first call starts it."""
        if self._next_flush_ns is None:
            self._next_flush_ns = now_ns + self._interval_ns
        elif now_ns >= self._next_flush_ns:
            self._next_flush_ns = now_ns + self._interval_ns
            self.flush()

    def flush(self) -> None:
        """Hand what has gathered to the writing thread; returns at once."""
        if self._gathered:
            self._handed.append(self._gathered)
            self._gathered = []
            self._wake.set()

    def close(self, timeout_s: float = 60.0) -> None:
        """Write what is left and end the thread. What a disk that hangs has not taken by then is lost."""
        self.flush()
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        noted = 0
        while True:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing  # read before the queue is emptied: what came earlier is written
            while self._handed:
                self._write_batch(self._handed.popleft())
            if self.dropped_rows != noted or closing:
                noted = self.dropped_rows
                self._put(_record({"dropped": noted, "closed": closing}))
            if closing:
                os.close(self._fd)
                return

    def _write_batch(self, batch: list[_Part]) -> None:
        """Write the rows of one flush, gathered by table: few records and few calls, however small the parts were.

        Steps come last: where a kill cuts the file, no step is there that looks as if it had done nothing.
        """
        tables: dict[str, list[Row]] = {}
        for table, rows, _ in batch:
            tables.setdefault(table, []).extend(rows)
        buffer, rows_in_buffer = b"", 0
        for table, gathered in sorted(tables.items(), key=lambda part: part[0] == "steps"):
            for first in range(0, len(gathered), CHUNK_ROWS):
                chunk = gathered[first : first + CHUNK_ROWS]
                buffer += _record({"t": table, "r": chunk})
                rows_in_buffer += len(chunk)
                if len(buffer) >= WRITE_BYTES:
                    self._put_rows(buffer, rows_in_buffer)
                    buffer, rows_in_buffer = b"", 0
        self._put_rows(buffer, rows_in_buffer)
        with self._lock:
            self._held_bytes -= sum(size for _, _, size in batch)

    def _put_rows(self, data: bytes, num_rows: int) -> None:
        if not self._put(data):
            with self._lock:
                self.dropped_rows += num_rows

    def _put(self, data: bytes) -> bool:
        """Write all of `data` behind the last whole record, or nothing: a torn one would hide all that follow it."""
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self._end + done)
        except OSError:
            return False
        self._end += done
        return True


def _take_over(descriptor: int) -> None:
    """Empty a file that nobody writes. Raises OSError where another process does: of two that write one file each would
    read the other's rows as its own. Where a file system has no locks nobody can know.
    """
    if fcntl is not None:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise
    os.ftruncate(descriptor, 0)


def read_segments(path: Path | str) -> SegmentContent:
    """Everything up to the first damaged record. Raises OSError, and SegmentError for a foreign or newer file."""
    data = Path(path).read_bytes()
    content = SegmentContent()
    start = len(MAGIC) + _VERSION.size
    if len(data) < start:
        if not MAGIC.startswith(data[: len(MAGIC)]):
            raise SegmentError("not a segment file of stepscope")
        content.torn_bytes = len(data)
        return content
    if not data.startswith(MAGIC):
        raise SegmentError("not a segment file of stepscope")
    (version,) = _VERSION.unpack_from(data, len(MAGIC))
    if version != VERSION:
        raise SegmentError(f"segment version {version} is not {VERSION}; read it with the stepscope that wrote it")
    position = start
    while (payload := _payload(data, position)) is not None:
        _take(content, json.loads(payload))
        position += _RECORD.size + len(payload)
    content.torn_bytes = len(data) - position
    return content


def _payload(data: bytes, position: int) -> bytes | None:
    """The payload of the record at `position`; None at the end and for a record that is not whole."""
    begin = position + _RECORD.size
    if begin > len(data):
        return None
    length, crc = _RECORD.unpack_from(data, position)
    payload = data[begin : begin + length]
    # No record is empty: eight zero bytes are what a crash leaves where a file was extended but not yet filled.
    return payload if 0 < length == len(payload) and zlib.crc32(payload) == crc else None


def _take(content: SegmentContent, record: dict[str, Any]) -> None:
    if "t" in record:
        content.rows.setdefault(record["t"], []).extend(map(tuple, record["r"]))
    else:
        content.dropped_rows = record["dropped"]
        content.closed = record["closed"]
