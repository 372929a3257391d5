"""Check of what binds a step on a GPU: 50 us more of host work in every second step of the laboratory runner."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis.columns import Columns
from ...analysis.gaps import gaps
from ...analysis.pace import WINDOW, pace_ns
from ...analysis.stats import median, midmean
from ...instrumentation.recording.reader import Recording
from ..loop import LoopLimits
from ..one_runner import HeldRows
from ..resolve import resolve
from ..session import Session
from .check import Check, Finding, Setting, exact, replaced
from .gpu import NEEDS, WHY

INJECTED_NS = 50_000
SETTLE = 4


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


def perturbed(kind: str, runs: int, device: str = "cuda") -> list[tuple[str | None, float]]:
    """Of each run what it is called, and by how much the injected work moves the median period, in ns."""
    most = KINDS[kind].session_runs
    return [run for done in range(0, runs, most) for run in _session(kind, min(most, runs - done), device)]


def _session(kind: str, runs: int, device: str) -> list[tuple[str | None, float]]:
    rows = HeldRows()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(resolve(bound_spec(kind, runs, device)), Path(folder) / "recording", rows=rows)
        with closing(session):
            plan = _Injection(KINDS[kind].stretch)
            plan.into(session.runner)
            session.activate()
            session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0))
            return [_run(session, rows, plan, KINDS[kind].steps) for _ in range(runs)]


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


def _run(session: Session, rows: HeldRows, plan: _Injection, steps: int) -> tuple[str | None, float]:
    session.hand_over()
    rows.tables.clear()
    plan.begin = session.loop.num_steps + SETTLE
    session.run(LoopLimits(warmup_steps=plan.begin, steps=steps))
    session.device.synchronize()
    session.probe.finish()
    session.hand_over()
    recording = Recording.from_ledger(rows.tables, session.meta_of(session.spec, None))
    return gaps(recording).bound, moved_ns(recording, plan.stretch)


def moved_ns(recording: Recording, stretch: int = 1) -> float:
    """Median over pairs of neighbouring stretches, one with more work and one without, of what their paces differ by.

    Of single steps it is the midmean, which scatters less; of stretches a quarter may hold a step that was held up.
    """
    steps = Columns(recording.table("steps"))
    number, _ = steps.ints("step")
    period, known = steps.ints("period_ns")
    counted = known & ~steps.flags("warmup", null=True)
    periods = period[counted][np.argsort(number[counted])].tolist()
    paces = [pace_ns(periods[at : at + stretch], stretch) for at in range(0, len(periods) - stretch + 1, stretch)]
    pairs = [(at, at - 1 if at % 4 == 1 else at + 1) for at in range(len(paces)) if at % 4 in (1, 2)]
    moved = [round((paces[more] or 0) - (paces[less] or 0)) for more, less in pairs if less < len(paces)]
    found = (midmean if stretch == 1 else median)(moved)
    return float("nan") if found is None else float(found)


def judged_runs(kind: str, runs: Sequence[tuple[str | None, float]]) -> list[Finding]:
    """Both findings of one kind."""
    called = [bound for bound, _ in runs]
    felt = [moved >= 40_000 if kind == "host" else moved <= 10_000 for _, moved in runs]
    most = "moves the period by 40 us or more" if kind == "host" else "moves the period by 10 us at most"
    values = sorted(moved / 1e3 for _, moved in runs)
    said = f"{values[0]:.1f} to {values[-1]:.1f} us"
    return [
        exact(f"{len(runs)} {kind}-bound runs of the runner: called so", len(runs), called.count(kind)),
        exact(f"{len(runs)} {kind}-bound runs: 50 us of host work {most} ({said})", len(runs), sum(felt)),
    ]


def _perturbed(setting: Setting) -> Sequence[Finding]:
    """Review (8), and the perturbation."""
    runs = setting.count(20, 3)
    return [finding for kind in KINDS for finding in judged_runs(kind, perturbed(kind, runs))]


CHECKS = (
    Check(
        group="overlap", name="perturbed", review="8", run=_perturbed, needs=NEEDS, why=WHY, seeded=False,
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
