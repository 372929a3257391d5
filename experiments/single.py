"""`perf run`'s work: one point, its recording, its page, its text."""

from __future__ import annotations

import dataclasses
import json
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MeasurementError, UsageError
from ..instrumentation.recording.storage import META_FILE, PARTIAL_META_FILE
from .axes import full_path, parse_params, put
from .files import make_writable, write_atomically
from .interrupt import Interrupt
from .loading import Tree, load_tree
from .plan import Plan, make_plan, parameters
from .point import Choice
from .result_folder import RESULTS, new_folder, sole_writer
from .spec import SOURCES, resolve_paths

if TYPE_CHECKING:
    from .loop import LoopOutcome
    from .measure import Measured

@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What to print, and what to end with."""

    text: str
    exit_code: int


def plan_single(spec: Path | None, fields: Mapping[str, Any], params: Sequence[str]) -> Plan:
    """The plan of exactly one point: the spec, then `fields` by name, then the `--param` texts. Raises UsageError."""
    name = str(spec) if spec else "command line"
    tree: Tree = resolve_paths(load_tree(spec), spec.parent) if spec else {}
    tree = put(tree, _choice(tree, fields))
    if _source(tree) is None:
        tree = put(tree, {"workload.regime": "steady"})
    axes = parse_params(params)
    many = [path for path, values in axes.items() if len(values) > 1]
    if many:
        raise UsageError(f"--param {many[0]}: perf run measures one point; several values are for perf sweep")
    plan = make_plan([(name, tree)], axes)
    if len(plan.points) > 1:
        raise UsageError(
            f"{name}: has {len(plan.points)} points, perf run measures one; use perf sweep, or fix its axes"
        )
    return plan


def _source(tree: Mapping[str, Any]) -> str | None:
    workload = tree.get("workload") or {}
    return next((name for name in SOURCES if workload.get(name) is not None), None)


def _choice(tree: Tree, fields: Mapping[str, Any]) -> Choice:
    """Fields by dotted path. A source of requests on the command line takes the place of the spec's."""
    choice: Choice = {}
    if "regime" in fields:
        choice |= {"workload.trace": None, "workload.generator": None, "workload.case": None}
    elif "file" in fields:
        choice |= {"workload.regime": None, "workload.generator": None, "workload.case": None, "workload.settings": {}}
    elif any(name in fields for name in ("limit", "speed")) and _source(tree) != "trace":
        raise UsageError("--limit, --speed: belong to a trace; give one with --trace FILE")
    for name, value in fields.items():
        choice[full_path(name)] = value
    return choice


def refuse_overwriting(folder: Path, force: bool) -> None:
    """Raise UsageError where `folder` holds a sweep, or a run that nobody said may be replaced."""
    if (folder / "plan.json").exists():
        raise UsageError(f"{folder}: holds a sweep; choose another --out")
    own = (folder, folder / "recording")
    held = any((place / name).exists() for place in own for name in (META_FILE, PARTIAL_META_FILE))
    if not force and (held or (folder / "summary.json").exists()):
        raise UsageError(f"{folder}: holds a recording already; choose another --out, or replace it with --force")


def run_single(
    plan: Plan, out: Path | None, progress: Callable[[int, int], None],
    around: Callable[[], AbstractContextManager[None]] = nullcontext, *, force: bool = False,
) -> RunOutcome:  # fmt: skip
    """Measure the plan's point into `out`, its steps inside `around`. Ctrl-C or SIGTERM ends the run early and keeps
    what was measured. Raises UsageError for a folder that holds a recording, unless `force` says to replace it, and for
    one that another process writes into."""
    folder = new_folder(RESULTS, "run-") if out is None else make_writable(out)
    with sole_writer(folder):
        refuse_overwriting(folder, force)
        return _run_into(folder, plan, progress, around)


def _run_into(
    folder: Path, plan: Plan, progress: Callable[[int, int], None], around: Callable[[], AbstractContextManager[None]]
) -> RunOutcome:
    from ..instrumentation.recording.reader import Recording
    from ..reports import page_and_answers
    from .measure import measure
    from .reporting import RECORDING, write_page
    from .summary import summary_of

    (point,) = plan.points
    started = time.perf_counter()
    with Interrupt(signal.SIGTERM) as interrupt:
        measured = measure(
            point.spec, folder / RECORDING, interrupted=lambda: interrupt.requested, progress=progress,
            around=around,
        )  # fmt: skip
    wall_s = time.perf_counter() - started
    record = {
        "id": point.id, **_ended(measured.outcome), "wall_s": round(wall_s, 3), "parameters": parameters(point.spec),
        "outcome": dataclasses.asdict(measured.outcome), **summary_of(measured),
    }  # fmt: skip
    write_atomically(folder / "summary.json", json.dumps(record, indent=1) + "\n")
    page, text = page_and_answers(Recording.load(folder / RECORDING), name=folder.absolute().name)
    write_page(folder / "report.html", page)
    outcome = measured.outcome
    _check_answers(measured)
    lines = [
        text.rstrip("\n"),
        "",
        answers_line(measured),
        checks_line(measured),
        f"wall time {wall_s:.1f} s",
        f"all tables: perf report {shlex.quote(str(folder))} --format text",
        f"report: {folder / 'report.html'}",
    ]
    if outcome.stopped == "interrupted":
        lines.append("interrupted: the report covers the steps up to here")
    return RunOutcome("\n".join(lines), 130 if outcome.stopped == "interrupted" else 0)


def _ended(outcome: LoopOutcome) -> dict[str, str]:
    """`ok`, or that it was interrupted: a part of a run is no result that anything else is compared with."""
    if outcome.stopped != "interrupted":
        return {"status": "ok"}
    return {"status": "interrupted", "reason": f"interrupted after {outcome.num_steps} steps"}


def answers_line(measured: Measured) -> str:
    """How many requests were answered in full, in how many steps."""
    outcome = measured.outcome
    return (
        f"answered {outcome.num_answered:,} of {outcome.num_requests:,} requests in {outcome.num_steps:,} steps:"
        f" {outcome.tokens_got:,} of {outcome.tokens_expected:,} expected tokens"
        f" (stopped: {outcome.stopped})"
    )


def checks_line(measured: Measured) -> str:
    """How often the runner's invariants were looked at; a broken one would have ended the run."""
    checks = measured.checks
    if not checks.steps_checked:
        return "invariants: not checked (--check every looks at each step)"
    return f"invariants: {len(checks.held)} in {checks.steps_checked:,} of {checks.steps_seen:,} steps, 0 broken"


def _check_answers(measured: Measured) -> None:
    outcome = measured.outcome
    if outcome.stopped == "answered" and outcome.tokens_got != outcome.tokens_expected:
        raise MeasurementError(f"not every request was answered in full: {answers_line(measured)}")
