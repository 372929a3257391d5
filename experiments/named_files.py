"""Files that points name: a trace, lengths, a model's shape, a calibration.

Other content under the same name is another experiment, which the parameters of a point do not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..workloads.lengths import Empirical
from .spec import PointSpec

PIECE_BYTES = 1 << 20


def digests(specs: Iterable[PointSpec]) -> dict[str, str]:
    """Path, as it is named -> digest of its content; for every file that `specs` name and that can be read here."""
    found = ((path, digest(path)) for path in named(specs))
    return {path: content for path, content in found if content is not None}


def named(specs: Iterable[PointSpec]) -> list[str]:
    """What `specs` name that may be a file, each once, in their order."""
    return list(dict.fromkeys(path for spec in specs for path in _named(spec)))


def digest(path: str) -> str | None:
    """What the content of the file `path` is known by; None for what is no file here."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                found.update(piece)
    except OSError:
        return None
    return found.hexdigest()[:16]


def _named(spec: PointSpec) -> Iterator[str]:
    workload = spec.workload
    if workload.trace is not None:
        yield workload.trace.file
    if workload.generator is not None:
        lengths = (workload.generator.prompt, workload.generator.output)
        yield from (one.path for one in lengths if isinstance(one, Empirical))
    model = spec.runner.model
    yield model if model.endswith(".json") else str(Path(model) / "config.json")
    yield spec.calibration
