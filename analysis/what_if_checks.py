"""The command that measures what a what-if predicts: the recorded experiment again, one switch as an axis, in turns.

    copy of block_table free -> perf sweep RECORDING --param commit_order=first,skip --param interleave=commit_order
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .what_if import Change
from .what_if_more import DEEPER_RING, GRAPHS_ON

NOT_OURS = "none: the recording was not made by the laboratory runner"
NO_SWITCH = "none: no switch changes that alone"
NO_SKIP = "none: this block table changes; regime steady has an arm without its copy"
_DECODES = re.compile(r"(\d+\*)?1@\d+(,(\d+\*)?1@\d+)*")
RESERVED = " --param workload.scheduler.reserve_output=true"


def check_command(change: Change, configuration: Mapping[str, Any]) -> str:
    """One line to paste, with the recording's path for RECORDING; else why there is none.

    A free copy is measured as the arm that skips it, which only a workload whose table does not change allows; a
    cheaper preparation by one that packs its copies: hold what the period lost against what the preparation lost.
    """
    runner = configuration.get("runner")
    if not isinstance(runner, Mapping):
        return NOT_OURS
    axis, values = _axis(change, runner)
    if len(set(values)) < 2:
        return NO_SWITCH
    skips = "skip" in values
    if skips and (not _stands_still(configuration) or runner.get("batch_state") == "rebuild"):
        return NO_SKIP
    reserve = "" if not skips or _reserved(configuration) else RESERVED
    return f"perf sweep RECORDING --param {axis}={','.join(map(str, values))} --param interleave={axis}{reserve}"


def _stands_still(configuration: Mapping[str, Any]) -> bool:
    """Whether the rows of the block table stay while they are measured: without that `skip` is refused."""
    workload = configuration.get("workload")
    if not isinstance(workload, Mapping):
        return False
    case = (workload.get("case") or "").rpartition("=")[2]
    return workload.get("regime") == "steady" or _DECODES.fullmatch(case) is not None


def _reserved(configuration: Mapping[str, Any]) -> bool:
    """Whether the scheduler takes the blocks of an answer at admission, so that rows do not grow either."""
    scheduler = configuration.get("scheduler")
    return isinstance(scheduler, Mapping) and bool(scheduler.get("reserve_output"))


def _axis(change: Change, runner: Mapping[str, Any]) -> tuple[str, tuple[object, ...]]:
    """The switch, and its value as it is and as it would be; no values where none does it."""
    if change == GRAPHS_ON:
        return "graph_mode", (runner.get("graph_mode", "none"), "full")
    if change == DEEPER_RING:
        slots = int(runner.get("ring_slots", 2))
        return "ring_slots", (slots, slots + 2)
    if set(change.phases) == {"preprocess"} and not change.copies:
        return "h2d_packing", ("separate", "packed")
    factor = change.copies.get("block_table")
    if factor is None or change.phases:
        return "", ()
    if factor == 0:
        return "commit_order", (runner.get("commit_order", "first"), "skip")
    width = runner.get("table_width")
    return ("table_width", (width, round(width * factor))) if isinstance(width, int) and factor > 1 else ("", ())
