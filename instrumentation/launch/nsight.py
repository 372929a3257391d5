"""The command line of `nsys profile`, and what must not be asked of it.

Workers that were forked before they executed their program are traced only with --trace-fork-before-exec; those of
vLLM must be spawned besides. `stop` ends the collection for good: a program that opens several windows needs `repeat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import UsageError

GraphTrace = Literal["graph", "node"]
CaptureRange = Literal["none", "cudaProfilerApi"]
RangeEnd = Literal["stop", "repeat"]
MOST_WINDOWS = 1000
_SPAWN = {"VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn"}


@dataclass(frozen=True, slots=True)
class NsightOptions:
    """What to collect.

    graph_trace    graph: one row a replay (cheap); node: every kernel inside (slows replays down)
    capture_range  none: all of the run; cudaProfilerApi: from cudaProfilerStart to cudaProfilerStop
    range_end      what happens at cudaProfilerStop: stop collects no more, repeat waits for the next start
    windows        how many such windows the program opens; nsys writes a report for each
    """

    graph_trace: GraphTrace = "graph"
    capture_range: CaptureRange = "none"
    range_end: RangeEnd | None = None
    windows: int = 1

    def check(self) -> None:
        """Raise UsageError for a combination that would end in a report with nothing usable in it."""
        if not 1 <= self.windows <= MOST_WINDOWS:
            raise UsageError(f"--windows {self.windows}: give 1 to {MOST_WINDOWS}; each has a report of its own")
        if self.capture_range == "none" and (self.windows > 1 or self.range_end is not None):
            raise UsageError("--windows, --range-end: belong to --capture-range cudaProfilerApi; give that too")
        if self.windows > 1 and self.range_end == "stop":
            raise UsageError(
                f"--range-end stop: ends the collection with the first of {self.windows} windows; take repeat"
            )

    @property
    def end_of_range(self) -> str:
        """The value of --capture-range-end: `repeat:N` waits for no window that never comes."""
        end = self.range_end or ("repeat" if self.windows > 1 else "stop")
        return f"repeat:{self.windows}" if end == "repeat" else end


def nsight_command(nsys: Path, command: Sequence[str], out: Path, options: NsightOptions) -> list[str]:
    """`nsys profile ... COMMAND`; the report goes to `out` with an ending of nsys' own. Raises as `check` does."""
    options.check()
    if not command:
        raise UsageError("no command to capture: give one behind --")
    ranged = [f"--capture-range={options.capture_range}"]
    if options.capture_range != "none":
        ranged.append(f"--capture-range-end={options.end_of_range}")
    return [
        str(nsys), "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none",
        f"--cuda-graph-trace={options.graph_trace}", "--trace-fork-before-exec=true", *ranged,
        "--wait=all",  # the report is made when the last worker has ended, not when the first process has
        "--force-overwrite=true", f"--output={out}", *command,
    ]  # fmt: skip


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the command: engines that choose how to start workers spawn them, unless it says else."""
    return {**_SPAWN, **environment}
