"""Two further what-ifs of the same replay: graphs on, and a ring of slots that is never waited for."""

from __future__ import annotations

import numpy as np

from ..instrumentation.queues import HostWait, replay
from .costs import calibrated
from .replay import Timeline, changed, replays
from .stats import Number, mean
from .tables import Process, TableSource
from .what_if import LEAST_STEPS, Change, WhatIf, steady_steps, untied_reason

GRAPHS_ON = Change("graphs on")
DEEPER_RING = Change("staging ring deeper")
_BUFFER_WAIT = "buffer:"


def graphs_on(recording: TableSource) -> WhatIf:
    """The forward's host work gives way to one replay's call (`host_cost_ns` graph_launch of the calibration).

    Device times stay: kernels in a graph are the same ones. Null where every step replays already, and where no
    replay's cost is known.
    """
    first = replays(recording).first
    if first is None:
        return _null(GRAPHS_ON, "no device operation can be replayed")
    process, line = first
    launch_ns = calibrated(process.table("calibration"), "host_cost_ns", "graph_launch")
    if launch_ns is None:
        return _null(GRAPHS_ON, "what the host pays for a replay is not in the table calibration")
    if bool((process.counted("dispatch").ints("size")[1]).all()):
        return _null(GRAPHS_ON, "every counted step replays a graph already")
    phases = process.counted("phases")
    host, known = phases[phases.matches("name", "forward")].ints("host_ns")
    if not known.any():
        return _null(GRAPHS_ON, "host time of the forward was not recorded")
    factor = min(1.0, launch_ns / max(1.0, float(np.median(host[known]))))
    return _compared(GRAPHS_ON, process, line, changed(line, {}, {"forward": factor}).host_ns)


def deeper_ring(recording: TableSource) -> WhatIf:
    """No step waits for a slot of a staged buffer: what more slots can give at best."""
    first = replays(recording).first
    if first is None:
        return _null(DEEPER_RING, "no device operation can be replayed")
    process, line = first
    waits = process.rows("waits")
    awaited, known = waits.ints("awaited")
    reasons = np.array([(reason or "").startswith(_BUFFER_WAIT) for reason in waits.texts("reason")], dtype=np.bool_)
    index = line.ops.index()
    meant = {index[int(op)] for op in awaited[known & reasons] if int(op) in index}
    others = {index[int(op)] for op in awaited[known & ~reasons] if int(op) in index}
    program = [step for step in line.program if isinstance(step, HostWait) and step.op in meant - others]
    if not program:
        return _compared(DEEPER_RING, process, line, line.baseline.host_ns)
    free = [
        step._replace(overhead_ns=0, wakeup_ns=-(1 << 60)) if isinstance(step, HostWait) and step.op in meant - others
        else step for step in line.program
    ]  # fmt: skip
    return _compared(DEEPER_RING, process, line, replay(free).host_ns)


def _compared(change: Change, process: Process, line: Timeline, host_ns: tuple[int, ...]) -> WhatIf:
    steady = steady_steps(process, line)
    if len(steady) < LEAST_STEPS:
        return _null(change, f"only {len(steady)} steady steps can be replayed, {LEAST_STEPS} are needed")
    if reason := untied_reason(line, steady):
        return _null(change, reason)
    before = np.diff(line.step_starts(line.baseline))[steady]
    after = np.diff(np.array(host_ns, dtype=np.int64)[line.step_at])[steady]
    saved: Number | None = mean(before - after)
    return WhatIf(change, len(steady), mean(before), mean(after), saved, None)


def _null(change: Change, reason: str) -> WhatIf:
    return WhatIf(change, 0, None, None, None, reason)
