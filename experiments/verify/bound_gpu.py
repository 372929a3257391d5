"""Check of what binds a step on a GPU: 50 us more of host work in every second step of the laboratory runner.

A period is what lies between the starts of two steps. Where the host binds it is read off the host's starts; where the
device does, off the starts of the forwards. In the long run both are the same; but the host starts a step when it sees
the tokens of an earlier one, 30 to 110 us early or late and now and then 1 ms (H200), and over the stretches of six
steps that are compared here that alone moved runs by -12.5 to 14.4 us. Forwards queue up behind one another and start
on time. What the host's starts say stands beside it, over all runs.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import numpy as np

from ...analysis.columns import Columns
from ...analysis.forwards import forward_starts
from ...analysis.gaps import gaps
from ...analysis.mirrored import RoundDifference, mirrored_difference
from ...analysis.pace import WINDOW, pace_ns
from ...analysis.stats import midmean
from ...instrumentation.recording.reader import Recording
from ..loop import LoopLimits
from ..one_runner import HeldRows
from ..resolve import resolve
from ..session import Session
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import NEEDS, WHY

INJECTED_NS = 50_000
SETTLE = 4
Periods = Sequence[int | None]
"""One a step, in ns; None where not known."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What binds, and how runs of it are perturbed.

    settings       of the runner and of its requests
    steps          of a run. On an H200 20 host-bound runs of 640 steps were moved by 38.7 to 61.4 us (standard
                   deviation 4.7), for the speed of its host changes
    stretch        steps in a row that get more work, or none. Where every step waits for its own tokens 1, for the
                   host's speed changes. With two in flight a window's (`analysis.pace`): single periods lean on one
                   another, and 24 pairs of neighbours were moved by -15 to 12 us by nothing but that
    session_runs   runs of one session at most: its requests must not outgrow the model, nor make the forward long
    """

    model: str
    num_reqs: int
    prompt_len: int
    token_handoff: str
    steps: int
    stretch: int
    session_runs: int


KINDS = {
    "host": Kind("tiny", 8, 32, "sync", 1900, 1, 2),
    "device": Kind("llama-1b", 64, 8192, "async_auto", 24 * WINDOW, WINDOW, 20),
}
"""An empty forward behind synchronous scheduling; a forward of 5 ms, longer than all host work on a slow core as well,
with two steps in flight."""


def injected(place: int, stretch: int) -> bool:
    """Whether a step of a run gets more work: stretches 0 1 1 0 0 1 1 0, so that growth and drift fall on both."""
    return place // stretch % 4 in (1, 2)


def spin(duration_ns: int) -> None:
    """Keep the host busy."""
    end = time.perf_counter_ns() + duration_ns
    while time.perf_counter_ns() < end:
        pass


def bound_spec(kind: str, runs: int, device: str = "cuda") -> dict[str, Any]:
    """One point whose requests last for all runs."""
    chosen = KINDS[kind]
    settings = {"num_reqs": chosen.num_reqs, "prompt_len": chosen.prompt_len}
    most = chosen.prompt_len + 4096
    return {
        "workload": {"regime": "steady", "scheduler": {"reserve_output": True}, "settings": settings},
        "runner": {
            "model": chosen.model, "token_handoff": chosen.token_handoff, "graph_mode": "full",
            "capture_sizes": [chosen.num_reqs], "max_model_len": most, "max_num_batched_tokens": 8192,
            "num_blocks": chosen.num_reqs * most // 16 + 1,
        },
        "device": device,
        "measure": {"steps": runs * (SETTLE + chosen.steps)},
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Perturbed:
    """Of a run what it is called, and by how much the injected work moves the period, in ns: by the host's starts of
    steps and by the device's starts of forwards. NaN where too few are known.
    """

    bound: str | None
    by_host_ns: float
    by_device_ns: float

    def moved_ns(self, kind: str) -> float:
        """By the starts of what ought to bind."""
        return self.by_host_ns if kind == "host" else self.by_device_ns


def perturbed(kind: str, runs: int, device: str = "cuda") -> list[Perturbed]:
    """Every run."""
    most = KINDS[kind].session_runs
    return [run for done in range(0, runs, most) for run in _session(kind, min(most, runs - done), device)]


def _session(kind: str, runs: int, device: str) -> list[Perturbed]:
    rows = HeldRows()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(resolve(bound_spec(kind, runs, device)), Path(folder) / "recording", rows=rows)
        with closing(session):
            plan = _Injection(KINDS[kind].stretch)
            plan.into(session.runner)
            session.activate()
            session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0))
            found = []
            for _ in range(runs):
                found.append(looked_at(_run(session, rows, plan, KINDS[kind].steps), plan.stretch))
            return found


@dataclass(slots=True)
class _Injection:
    """More work in steps of a run, which begins with step `begin`."""

    stretch: int
    begin: int = 0

    def into(self, runner: Any) -> None:
        """Do it where inputs are prepared."""
        prepare: Callable[..., Any] = runner.inputs.prepare

        def with_more(batch: Any, delta: Any) -> Any:
            if injected(delta.step - self.begin, self.stretch):
                spin(INJECTED_NS)
            return prepare(batch, delta)

        runner.inputs.prepare = with_more


def _run(session: Session, rows: HeldRows, plan: _Injection, steps: int) -> Recording:
    session.hand_over()
    rows.tables.clear()
    plan.begin = session.loop.num_steps + SETTLE
    session.run(LoopLimits(warmup_steps=plan.begin, steps=steps))
    session.device.synchronize()
    session.probe.finish()
    session.hand_over()
    return Recording.from_ledger(rows.tables, session.meta_of(session.spec, None))


def looked_at(recording: Recording, stretch: int) -> Perturbed:
    """A run whose counted steps got more work in stretches, from the first of them on (`injected`)."""
    by_host, by_device = host_periods(recording), device_periods(recording)
    return Perturbed(gaps(recording).bound, moved_ns(by_host, stretch), moved_ns(by_device, stretch))


def host_periods(recording: Recording) -> Periods:
    """From the start of each counted step to that of the next, in order."""
    steps = Columns(recording.table("steps"))
    number, _ = steps.ints("step")
    period, known = steps.ints("period_ns")
    counted = known & ~steps.flags("warmup", null=True)
    found: list[int] = period[counted][np.argsort(number[counted])].tolist()
    return found


def device_periods(recording: Recording) -> Periods:
    """To the start of each counted step's forward from that of the one before, in order: host work before a launch
    lengthens this one where the device has to wait for it. None where one of the two is not known.
    """
    steps = Columns(recording.table("steps"))
    counted = np.sort(steps.ints("step")[0][~steps.flags("warmup", null=True)]).tolist()
    starts = forward_starts(recording)
    return [starts[step] - starts[step - 1] if {step, step - 1} <= starts.keys() else None for step in counted]


def moved_ns(periods_ns: Periods, stretch: int) -> float:
    """By how much stretches with more work are slower than their neighbours without.

    Of single steps it is the midmean over pairs. Of longer stretches it is the mean of the medians of pairs of either
    order, one of which growth from step to step lengthens by what it shortens the other (`analysis.mirrored`), and a
    quarter of which may hold a step that was held up. NaN if half of the pairs of an order are not known.
    """
    paces = [_pace(periods_ns[at : at + stretch]) for at in range(0, len(periods_ns) - stretch + 1, stretch)]
    pairs = [(at, at - 1 if at % 4 == 1 else at + 1) for at in range(len(paces)) if at % 4 in (1, 2)]
    pairs = [(more, less) for more, less in pairs if less < len(paces)]
    moved = [
        RoundDifference(less > more, paces[more] - paces[less])
        for more, less in pairs if not math.isnan(paces[more] + paces[less])
    ]  # fmt: skip
    for back in (False, True):
        if 2 * sum(one.back is back for one in moved) <= sum((less > more) is back for more, less in pairs):
            return math.nan
    if stretch == 1:
        found = midmean([round(one.difference_ns) for one in moved])
        return math.nan if found is None else float(found)
    both = mirrored_difference(moved)
    return math.nan if both is None else both


def _pace(periods_ns: Periods) -> float:
    known = [period for period in periods_ns if period is not None]
    pace = pace_ns(known, len(periods_ns)) if len(known) == len(periods_ns) else None
    return math.nan if pace is None else float(pace)


def judged_runs(kind: str, runs: Sequence[Perturbed]) -> list[Finding]:
    """The findings of one kind."""
    called = [run.bound for run in runs]
    moved = [run.moved_ns(kind) for run in runs]
    felt = [ns >= 40_000 if kind == "host" else abs(ns) <= 10_000 for ns in moved]
    most = "moves the period by 40 us or more" if kind == "host" else "moves the period by 10 us at most"
    said = f"{min(moved) / 1e3:.1f} to {max(moved) / 1e3:.1f} us"
    found = [
        exact(f"{len(runs)} {kind}-bound runs of the runner: called so", len(runs), called.count(kind)),
        exact(f"{len(runs)} {kind}-bound runs: 50 us of host work {most} ({said})", len(runs), sum(felt)),
    ]
    if kind == "device":
        by_host = [run.by_host_ns / 1e3 for run in runs]
        said = f"{min(by_host):.1f} to {max(by_host):.1f} us in single runs"
        found.append(within(f"the same by the host's starts, mean of the runs ({said})", mean(by_host), -10, 10, "us"))
    return found


def _perturbed(setting: Setting) -> Sequence[Finding]:
    """Runs bound by the host and by the device are told apart, and react to 50 us more host work as they should."""
    runs = setting.count(20, 3)
    return [finding for kind in KINDS for finding in judged_runs(kind, perturbed(kind, runs))]


CHECKS = (
    Check(
        group="overlap", name="perturbed", point=8, run=_perturbed, needs=NEEDS, why=WHY, seeded=False,
        mutants={
            "called_the_other": replaced(
                "experiments.verify.bound_gpu", "gaps", lambda whole: lambda recording: _Swapped(whole(recording).bound)
            ),
        },
    ),
)  # fmt: skip


class _Swapped:
    def __init__(self, bound: str | None) -> None:
        self.bound = {"host": "device", "device": "host"}.get(bound or "", bound)
