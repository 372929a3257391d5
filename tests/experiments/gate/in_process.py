"""Arms of the gate without processes: the worker's own code, asked in this process. And launches made of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.gate.block_values import LaunchValues
from stepscope.analysis.gate.conditions import Conditions
from stepscope.experiments.gate.arms import Program
from stepscope.experiments.gate.launch import ARMS, PointLaunch
from stepscope.experiments.gate.process import ArmFailed
from stepscope.experiments.gate.worker import Worker

COUNTS = {"pageable_bytes": 0, "hazards": 0, "syncs": 50, "launches": 250, "h2d_count": 250, "padding_share": None}
OPENED = {
    "environment": {"gpu_name": "NVIDIA H200", "gpu_driver": "550.54", "python": "3.12.1"}, "device": "cuda",
    "modelled": False, "calibration": None, "parameters": {"workload": {"regime": "steady"}, "device": "cuda"},
}  # fmt: skip


class InProcessArm:
    """Looks like an ArmProcess. `spoil`: (arm, request, reply) -> the reply to give instead."""

    pid = 0
    spoil: Callable[[str, Mapping[str, Any], dict[str, Any]], dict[str, Any]] | None = None

    def __init__(self, arm: str, program: Program, log: Path) -> None:
        self.arm, self._worker = arm, Worker()
        self._replies = [{"ok": True, "package": str(program.package)}]

    def send(self, request: Mapping[str, Any]) -> None:
        reply = json.loads(json.dumps(self._worker.answer(json.loads(json.dumps(request)))))
        self._replies.append(type(self).spoil(self.arm, request, reply) if type(self).spoil else reply)

    def receive(self, timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        reply = self._replies.pop(0)
        if not reply["ok"]:
            raise ArmFailed(self.arm, reply["kind"], reply["reason"])
        return reply

    def ask(self, request: Mapping[str, Any], timeout_s: float, meanwhile: Callable[[], None]) -> dict[str, Any]:
        self.send(request)
        return self.receive(timeout_s, meanwhile)

    def close(self) -> None:
        self._worker = Worker()


def made_launch(
    number: int, slower: float = 0.0, *, pairs: int = 6, noise: float = 0.002, phase: str = "preprocess",
    counts: Mapping[str, Any] | None = None, conditions: Conditions | None = None, tail: float = 0.0,
) -> PointLaunch:
    """A launch whose step of 1 ms takes `slower` longer in head, all of it in `phase`, the slowest `tail` longer."""
    rng = np.random.default_rng(number)
    values = {}
    for arm in ARMS:
        period = 1e6 * np.exp(noise * rng.standard_normal(pairs))
        lost = 1e6 * slower * (arm == "head")
        names = ("preprocess", "forward", "sample")
        parts = {name: 2.5e5 * np.exp(noise * rng.standard_normal(pairs)) for name in names}
        parts[phase] = parts[phase] + lost
        timed = {"period_p50_ns": period + lost, "device_p50_ns": period / 2,
                 "period_p99_ns": 1.2 * (period + lost) * (1 + tail * (arm == "head")),
                 **{f"{name}_p50_ns": value for name, value in parts.items()}, "exposed_p50_ns": np.zeros(pairs)}
        ranges = {"build_indices": 5e4 + np.full(pairs, lost), "copy_inputs": np.full(pairs, 3e4)}
        values[arm] = LaunchValues(timed, {**COUNTS, **(counts or {})} if arm == "head" else dict(COUNTS), ranges)
    seen = {arm: [conditions or Conditions(load=1.0)] * pairs for arm in ARMS}
    told = {"base": OPENED, "head": OPENED}
    return PointLaunch(told, values, seen, [(number + pair) % 2 == 1 for pair in range(pairs)])


class Script:
    """Stands in for `measure_launch`: gives each point's launches from `make`, and notes what was asked for."""

    def __init__(self, make: Callable[[str, int], PointLaunch]) -> None:
        self.make, self.asked = make, []

    def __call__(self, bench: object, names: Sequence[str], number: int, say: object) -> dict[str, PointLaunch]:
        self.asked.append((number, tuple(names)))
        return {name: self.make(name, number) for name in names}
