"""Check of what binds a step on a GPU: 50 us more of host work in every second step of the laboratory runner."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ...analysis.columns import Columns
from ...analysis.gaps import gaps
from ...analysis.stats import midmean
from ...instrumentation.recording.reader import Recording
from ..loop import LoopLimits
from ..one_runner import HeldRows
from ..resolve import resolve
from ..session import Session
from .check import Check, Finding, Setting, exact, replaced
from .gpu import NEEDS, WHY

INJECTED_NS = 50_000
SETTLE = 4
KINDS: dict[str, dict[str, Any]] = {
    "host": {
        "model": "tiny", "num_reqs": 8, "prompt_len": 32, "token_handoff": "sync", "steps": 1900, "session_runs": 2,
    },
    "device": {
        "model": "llama-1b", "num_reqs": 64, "prompt_len": 2048, "token_handoff": "async_auto", "steps": 48,
        "session_runs": 20,
    },
}
"""An empty forward behind synchronous scheduling; a forward longer than all host work, with two steps in flight.

steps          of a run. On an H200 20 host-bound runs of 640 steps were moved by 38.7 to 61.4 us (standard deviation
               4.7), for the speed of its host changes
session_runs   runs of one session at most: its requests must not outgrow the model, nor make the forward long
"""


def injected(step: int) -> bool:
    """Which steps get more work: 0 1 1 0 0 1 1 0, so that what grows or drifts falls on both kinds alike."""
    return step % 4 in (1, 2)


def spin(duration_ns: int) -> None:
    """Keep the host busy."""
    end = time.perf_counter_ns() + duration_ns
    while time.perf_counter_ns() < end:
        pass


def bound_spec(kind: str, runs: int, device: str = "cuda") -> dict[str, Any]:
    """One point whose requests last for all runs."""
    chosen = KINDS[kind]
    settings = {name: chosen[name] for name in ("num_reqs", "prompt_len")}
    return {
        "workload": {"regime": "steady", "scheduler": {"reserve_output": True}, "settings": settings},
        "runner": {
            "model": chosen["model"], "token_handoff": chosen["token_handoff"], "graph_mode": "full",
            "capture_sizes": [chosen["num_reqs"]], "max_model_len": 4096, "max_num_batched_tokens": 8192,
            "num_blocks": chosen["num_reqs"] * 256 + 1,
        },
        "device": device,
        "measure": {"steps": runs * (SETTLE + chosen["steps"])},
    }  # fmt: skip


def perturbed(kind: str, runs: int, device: str = "cuda") -> list[tuple[str | None, float]]:
    """Of each run what it is called, and by how much the injected work moves the median period, in ns."""
    most = KINDS[kind]["session_runs"]
    return [run for done in range(0, runs, most) for run in _session(kind, min(most, runs - done), device)]


def _session(kind: str, runs: int, device: str) -> list[tuple[str | None, float]]:
    rows = HeldRows()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(resolve(bound_spec(kind, runs, device)), Path(folder) / "recording", rows=rows)
        with closing(session):
            _inject(session.runner)
            session.activate()
            session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0))
            return [_run(session, rows, KINDS[kind]["steps"]) for _ in range(runs)]


def _inject(runner: Any) -> None:
    prepare: Callable[..., Any] = runner.inputs.prepare

    def with_more(batch: Any, delta: Any) -> Any:
        if injected(delta.step):
            spin(INJECTED_NS)
        return prepare(batch, delta)

    runner.inputs.prepare = with_more


def _run(session: Session, rows: HeldRows, steps: int) -> tuple[str | None, float]:
    session.hand_over()
    rows.tables.clear()
    session.run(LoopLimits(warmup_steps=session.loop.num_steps + SETTLE, steps=steps))
    session.device.synchronize()
    session.probe.finish()
    session.hand_over()
    recording = Recording.from_ledger(rows.tables, session.meta_of(session.spec, None))
    return gaps(recording).bound, moved_ns(recording)


def moved_ns(recording: Recording) -> float:
    """Midmean over pairs of neighbours, one with more work and one without, of what their periods differ by."""
    steps = Columns(recording.table("steps"))
    number, _ = steps.ints("step")
    period, known = steps.ints("period_ns")
    counted = known & ~steps.flags("warmup", null=True)
    periods = dict(zip(number[counted].tolist(), period[counted].tolist(), strict=True))
    pairs = [(step, step - 1 if step % 4 == 1 else step + 1) for step in periods if injected(step)]
    found = midmean([periods[more] - periods[less] for more, less in pairs if less in periods])
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
