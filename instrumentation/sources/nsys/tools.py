"""Where an nsys lies on this machine, and the importer that finishes what it left unfinished.

On the PATH, in the folders that NVIDIA's packages use, and inside Nsight Compute, which carries an nsys of its own
with its importer beside it: `host/target-*/nsys` and `host/linux-desktop-*/QdstrmImporter`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOTS = (Path("/opt/nvidia"), Path("/usr/local"), Path("/usr/lib"))
_NSYS = (
    "nsight-systems*/*/bin/nsys", "nsight-systems*/bin/nsys", "nsight-systems*/*/target-linux-*/nsys", "cuda*/bin/nsys",
    "nsight-systems*/target-linux-*/nsys", "nsight-compute*/*/host/target-linux-*/nsys",
    "cuda*/nsight-compute*/host/target-linux-*/nsys",
)  # fmt: skip
_IMPORTERS = (
    "nsight-systems*/*/host-linux-*/QdstrmImporter", "nsight-systems*/host-linux-*/QdstrmImporter",
    "nsight-systems*/*/host-*/*/QdstrmImporter", "nsight-compute*/*/host/linux-desktop-*/QdstrmImporter",
    "cuda*/nsight-compute*/host/linux-desktop-*/QdstrmImporter",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NsysTools:
    """Programs that were found; None for what is not there."""

    nsys: Path | None
    importer: Path | None


def find_tools(roots: Sequence[Path] = _ROOTS, path: str | None = None) -> NsysTools:
    """The newest of what lies in the folders under `roots`; an nsys on the PATH (`path` for another one) goes first."""
    on_path = shutil.which("nsys", path=path if path is not None else os.environ.get("PATH"))
    nsys = Path(on_path) if on_path else _newest(roots, _NSYS)
    beside = _importer_beside(nsys) if nsys else None
    return NsysTools(nsys, beside or _newest(roots, _IMPORTERS))


def _importer_beside(nsys: Path) -> Path | None:
    """The importer of the same installation, above the folder of the program that a link on the PATH leads to."""
    home = nsys.resolve().parent.parent
    found = [entry for pattern in ("*/QdstrmImporter", "*/*/QdstrmImporter") for entry in home.glob(pattern)]
    return max(filter(_runs, found), default=None)


def _newest(roots: Sequence[Path], patterns: Sequence[str]) -> Path | None:
    for pattern in patterns:
        found = [entry for root in roots if root.is_dir() for entry in root.glob(pattern) if _runs(entry)]
        if found:
            return max(found, key=_version)
    return None


def _version(path: Path) -> list[tuple[int, ...]]:
    return [tuple(int(part) for part in name.split(".") if part.isdecimal()) for name in path.parts]


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
