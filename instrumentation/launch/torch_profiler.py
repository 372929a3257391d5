"""torch.profiler around a run of ours, with the probe's ranges in its trace.

torch.profiler does not see NVTX: while it listens the probe opens ranges of torch.profiler instead, named
`stepscope: preprocess` and so on, which importers know.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..probe.nvtx_ranges import listening
from ..sources.markers import OWN_PREFIX


class RecordFunctions:
    """A domain as the probe's ranges want one, which opens ranges of torch.profiler. Of one thread.

    `record_function` goes through an operator on its way in: 7 to 10 us that would be counted into every phase.
    `_RecordFunctionFast` takes less than 1 us; its ranges stand among the operators (cpu_op) of the trace.
    """

    def __init__(self) -> None:
        self._scope: Callable[[str], Any] = importlib.import_module("torch")._C._profiler._RecordFunctionFast
        self._open: list[Any] = []

    def get_event_attributes(self, *, message: str) -> str:
        """What `push_range` wants for a range of this name."""
        return f"{OWN_PREFIX}{message}"

    def push_range(self, attributes: str) -> None:
        """Open a range inside whatever is open."""
        scope = self._scope(attributes)
        scope.__enter__()
        self._open.append(scope)

    def pop_range(self) -> None:
        """Close the innermost range."""
        self._open.pop().__exit__(None, None, None)


@contextmanager
def probe_ranges() -> Iterator[None]:
    """Inside, probes that are made open ranges for torch.profiler."""
    with listening(RecordFunctions()):
        yield


@contextmanager
def profiled_into(path: Path) -> Iterator[None]:
    """Profile the block and write its trace, packed where `path` ends in .gz. A block that raises writes none."""
    profiler = importlib.import_module("torch.profiler")
    torch = importlib.import_module("torch")
    wanted = [profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        wanted.append(profiler.ProfilerActivity.CUDA)
    with profiler.profile(activities=wanted) as profile:
        yield
    profile.export_chrome_trace(str(path))


@contextmanager
def profiler_window() -> Iterator[None]:
    """cudaProfilerStart and cudaProfilerStop around the block, for a profiler that waits for them."""
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        with torch.cuda.profiler.profile():
            yield
    else:
        yield
