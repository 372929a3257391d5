"""`perf step`'s work: run a small case on the laboratory runner, look at one step, name the first broken invariant."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import BrokenInvariant, UsageError
from ...instrumentation.probe import Ledger, NullProbe
from ...runner.devices import make_device
from ...runner.model_runner import ModelRunner, build_runner
from ...runner.probe_points import POINT_NAMES, PointName
from ..typed import unknown
from .cases import Case, load_case
from .facts import describe
from .faults import FAULTS, Fault
from .record import StepRecord, record_text, take_record


@dataclass(frozen=True, slots=True)
class MinimalOutcome:
    """The text to print, and the first broken invariant, if one broke."""

    text: str
    broken: BrokenInvariant | None = None


class _Stop(Exception):
    """Ends a step at the point that was asked for; never leaves this module."""


@dataclass(slots=True)
class _Watcher:
    """Sees every probe point: plants the fault, takes the record, stops where the reader wants to stop."""

    runner: ModelRunner
    stop_at: PointName | None
    fault: Fault | None
    focus: int
    step: int = -1
    record: StepRecord | None = None
    stopped: str = ""
    requests: Any = field(default_factory=dict)

    def __call__(self, name: PointName, facts: dict[str, object]) -> None:
        if name == "update_states":
            self.requests = facts["requests"]
        if self.fault is not None and self.step == self.focus and name == self.fault.point:
            self.fault.plant(self.runner, facts)
        if name == "slot_mapping":
            used = {req_id: len(state.block_ids[0]) for req_id, state in self.requests.items()}
            self.record = take_record(facts["inputs"], used)  # type: ignore[arg-type]
        if name == self.stop_at and self.step == self.focus:
            self.stopped += describe(name, facts)
            if name != "add_request":  # that point is reached once for each request: all of them are wanted
                raise _Stop
        elif self.stopped:
            raise _Stop


def run_minimal(
    file: Path | None, example: str | None, *, at: str | None = None, plant: str | None = None, every: bool = False
) -> MinimalOutcome:
    """Run a case and print the step in focus (or every step). Raises UsageError for a bad name or file."""
    if plant == "list":
        return MinimalOutcome("\n".join(f"{name:20} {fault.doc}" for name, fault in FAULTS.items()))
    point, fault = _known_point(at), _known_fault(plant)
    try:
        case = load_case(file, example)
        runner = _runner(case)
        watcher = _Watcher(runner, point, fault, case.focus)
        runner.observe(watcher)
        return _run(case, runner, watcher, every=every)
    except UsageError as error:
        if file is None or str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error


def _run(case: Case, runner: ModelRunner, watcher: _Watcher, *, every: bool) -> MinimalOutcome:
    parts: list[str] = []
    for delta in case.deltas():
        watcher.step = delta.step
        try:
            case.results.append(runner.execute(delta))
        except _Stop:
            heading = f"step {delta.step}, at {watcher.stop_at}"
            return MinimalOutcome("\n".join([*parts, f"{heading}\n{watcher.stopped}".rstrip("\n")]))
        except BrokenInvariant as broken:
            shown = _shown(watcher.record, case, heading=True)
            return MinimalOutcome("\n".join([*parts, shown]).rstrip("\n"), broken)
        if watcher.stop_at is not None and delta.step == case.focus:
            return MinimalOutcome(f"step {delta.step} does not pass {watcher.stop_at}: {_why_not(watcher.stop_at)}")
        if every or delta.step == case.focus:
            parts.append(_shown(watcher.record, case, heading=every))
    if watcher.step < case.focus:
        parts.append(f"step {case.focus} is not reached: the case ends with step {watcher.step}")
    return MinimalOutcome("\n".join(parts).rstrip("\n"))


def _why_not(point: PointName) -> str:
    return "no request enters the batch in it" if point == "add_request" else "it schedules no token"


def _shown(record: StepRecord | None, case: Case, *, heading: bool) -> str:
    if record is None:
        return ""
    text = record_text(record, all_fields=case.spec.all_fields)
    return f"step {record.step}\n{text}" if heading else text


def _runner(case: Case) -> ModelRunner:
    ledger = Ledger()
    device = make_device("cpu", ledger=ledger)
    return build_runner(case.config(), device, NullProbe(), ledger)


def _known_point(name: str | None) -> PointName | None:
    if name is None:
        return None
    for known in POINT_NAMES:
        if known == name:
            return known
    raise unknown("point", name, POINT_NAMES, "--at")


def _known_fault(name: str | None) -> Fault | None:
    if name is None:
        return None
    if name not in FAULTS:
        raise unknown("fault", name, FAULTS, "--plant")
    return FAULTS[name]
