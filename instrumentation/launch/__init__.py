"""Running something under a profiler: the command line of Nsight Systems, how to end it, and what it must leave behind.

    command = nsight_command(nsys, ["python", "serve.py"], Path("out/capture"), NsightOptions(graph_trace="node"))
    ended = run_gently(command, worker_environment(os.environ))
    reports = reports_of(Path("out/capture"), windows=1, ended=ended, can_finish=True)

What a report holds `sources` reads; whether every process brought kernels the caller checks on its figures.
"""

from __future__ import annotations

from .nsight import NsightOptions, nsight_command, worker_environment
from .reports import reports_of
from .running import Ended, run_gently

__all__ = ["Ended", "NsightOptions", "nsight_command", "reports_of", "run_gently", "worker_environment"]
