"""Command lines that were meant for the `perf` of Linux: say which program this is and where the other one lies."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_VERBS = frozenset((
    "annotate", "archive", "bench", "c2c", "ftrace", "inject", "kmem", "kvm", "list", "lock", "mem", "probe", "record",
    "sched", "script", "stat", "timechart", "top", "trace",
))  # fmt: skip
_MAGIC = (b"PERFILE2", b"2ELIFREP", b"PERFFILE")


def explain(arguments: Sequence[str]) -> str | None:
    """The message for a command line of the other perf, None for one of ours."""
    if not arguments:
        return None
    verb = arguments[0]
    if verb in _VERBS:
        return f"'{verb}' is a verb of the Linux profiler perf; this perf is stepscope (also typed so). {_where()}"
    if verb == "report":
        for argument in arguments[1:]:
            if _is_perf_data(Path(argument)):
                return f"{argument} was recorded by the Linux profiler perf; this perf is stepscope. {_where()}"
    return None


def _is_perf_data(path: Path) -> bool:
    try:
        if not path.is_file():
            return path.name == "perf.data"
        with path.open("rb") as file:
            return file.read(8) in _MAGIC
    except (OSError, ValueError):  # unreadable, or no path at all: the verb will say so
        return False


def _where() -> str:
    ours = Path(sys.argv[0]).resolve().parent
    folders = [folder for folder in os.get_exec_path() if Path(folder).resolve() != ours]
    other = shutil.which("perf", path=os.pathsep.join(folders))
    if other:
        return f"The other lies at {other}: call it by that path."
    return "The other is not on this PATH; it comes with the package linux-perf or linux-tools of your distribution."
