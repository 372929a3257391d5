"""Copies of captures that can be given away: what figures are made of stays, everything else is left behind.

Both writers go by lists of what may stay (tables, columns, keys, fields); a name that they do not list never gets
into the copy, so a place for secrets that a later profiler invents is left behind too. What stays as text: names of
kernels, calls, operators and ranges, and of the GPU.
"""

from __future__ import annotations

import os
from pathlib import Path

from ....errors import UsageError
from ..reading import capture_kind
from .kineto import scrub_trace
from .nsys import scrub_export, scrub_report

_ENDINGS = {"nsys": (".sqlite",), "report": (".sqlite",), "kineto": (".json.gz", ".json")}
_WRITERS = {"nsys": scrub_export, "report": scrub_report, "kineto": scrub_trace}


def scrub_copy(path: Path, out: Path) -> Path:
    """Write the cleaned copy of a capture to `out`, which is replaced only by a whole file. Returns `out`.

    Raises UsageError for what is no capture, is damaged, or for an ending of `out` that does not fit.
    """
    kind = capture_kind(path)
    if not out.name.endswith(_ENDINGS[kind]):
        raise UsageError(f"{out}: a scrubbed copy of {path.name} ends in {' or '.join(_ENDINGS[kind])}; rename it")
    if out.exists() and out.samefile(path):
        raise UsageError(f"{out}: is the capture itself; name another file")
    if out.is_dir():
        raise UsageError(f"{out}: is a folder; name a file")
    part = out.with_name(f".{out.name}.part")
    try:
        part.unlink(missing_ok=True)
        _WRITERS[kind](path, part, packed=out.name.endswith(".gz"))
        os.replace(part, out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); choose another path") from error
    finally:
        part.unlink(missing_ok=True)
    return out
