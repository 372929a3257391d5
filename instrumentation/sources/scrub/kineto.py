"""A cleaned Kineto trace: the events that figures are made of, with the fields that they are made of."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from ..kineto import about
from ..kineto.categories import LEFT_OUT
from ..kineto.chunks import ChunkReader
from ..kineto.cutting import EventStream
from ..kineto.events import Args, Event

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LEVEL = 9


def scrub_trace(path: Path, out: Path, *, packed: bool = True) -> None:
    """Write the cleaned trace to `out`, event by event: memory is that of a chunk.

    Raises UsageError for a trace that is cut or damaged: a copy would not tell what is missing.
    """
    stream = EventStream(ChunkReader(path), salvage=False)
    with ExitStack() as files:
        raw = files.enter_context(out.open("wb"))
        # no name and no time in the packed file's head: it depends on the trace alone
        file: IO[bytes] = files.enter_context(
            gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0)  # type: ignore[arg-type]
        ) if packed else raw  # fmt: skip
        file.write(b'{"traceEvents": [')
        first = True
        for events in stream:
            for line in _lines(events):
                file.write(b"\n" if first else b",\n")
                file.write(line)
                first = False
        file.write(b"\n]")
        for key, value in _metadata(stream.metadata).items():
            file.write(b",\n" + msgspec.json.encode(key) + b": " + msgspec.json.encode(value))
        file.write(b"\n}\n")


def _lines(events: Sequence[object]) -> Iterator[bytes]:
    """What becomes rows; also what lacks usable times, which is counted."""
    for event in events:
        if isinstance(event, Event) and event.cat.code != LEFT_OUT:
            yield msgspec.json.encode(_event(event))


def _event(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ph": "X", "cat": event.cat.value, "name": event.name, "pid": event.pid, "tid": event.tid,
        "ts": _token(event.ts), "dur": _token(event.dur),
    }  # fmt: skip
    if event.args is not None:
        found["args"] = _args(event.args)
    return found


def _args(args: Args) -> dict[str, int]:
    named = {
        "correlation": args.correlation, "device": args.device, "stream": args.stream, "bytes": args.bytes,
        "graph node id": args.node,
    }  # fmt: skip
    return {name: value for name, value in named.items() if value is not None}


def _token(value: object) -> msgspec.Raw | int | None:
    """The number as the trace wrote it, digit by digit; null for what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return msgspec.Raw(value.encode()) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, switches, rank and GPUs, as the importer reads them; no text but the GPU's name."""
    told = about.facts(metadata)
    base, rank, gpu = told.pop("base_time_ns"), about.rank(metadata), about.environment(metadata)
    found = {key: int(value) if isinstance(value, bool) else value for key, value in told.items()}
    if base is not None:
        found["baseTimeNanoseconds"] = base
    if rank is not None:
        found["distributedInfo"] = {"rank": rank}
    if gpu:
        one = {"name": gpu["gpu_name"], "totalGlobalMem": gpu["gpu_memory_bytes"]}
        found["deviceProperties"] = [{"id": number, **one} for number in range(int(gpu["gpu_count"] or 0))]
    return found
