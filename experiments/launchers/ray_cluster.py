"""An existing Ray cluster behind the door `Cluster`: an actor a GPU, never restarted, no call of it ever repeated."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import MeasurementError
from .ray_losses import loss_of
from .ray_worker import RayWorker

FETCH_LIMIT_S = 300.0
"""For a result that lies on another node."""
HEAD_LIMIT_S = 30.0
"""Without an answer of the head, until the cluster counts as gone. Ray itself ends the process after 60."""


class RayCluster:
    """`ray` is the module, connected. `head_answers` says whether somebody listens where the head is."""

    def __init__(
        self, ray: Any, *, address: str, work: str | None, ours: bool, head_answers: Callable[[], bool]
    ) -> None:
        self._ray, self._address, self._work, self._ours = ray, address, work, ours
        self._head_answers = head_answers
        self._errors = importlib.import_module("ray.exceptions")
        self._answered_s = time.monotonic()
        self.unit = "GPU" if self._sum("GPU") >= 1 else "CPU"
        self._room = self._count()
        self._actor = ray.remote(RayWorker)

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _sum(self, resource: str) -> int:
        return int(sum(node.get(resource, 0.0) for node in self._nodes()))

    def _count(self) -> int:
        """Whole units, node by node: half a GPU here and half a one there are none."""
        return sum(int(min(node.get(self.unit, 0.0), node.get("CPU", 0.0))) for node in self._nodes())

    def capacity(self) -> int:
        """See Cluster. A head that does not answer just now changes nothing."""
        now_s = time.monotonic()
        if self._head_answers():
            self._answered_s = now_s
            self._room = self._count()
        elif now_s - self._answered_s > HEAD_LIMIT_S:
            raise MeasurementError(f"the head of the Ray cluster at {self._address} is silent for {HEAD_LIMIT_S:g} s")
        return self._room

    def describe(self) -> str:
        """See Cluster."""
        free = self._ray.available_resources().get(self.unit, 0.0)
        return (
            f"the Ray cluster at {self._address} has {len(self._nodes())} nodes with {self._sum('GPU')} GPUs and"
            f" {self._sum('CPU')} CPUs, {free:g} {self.unit}s of them free"
        )

    def spawn(self) -> Any:
        """See Cluster."""
        needs = {"num_cpus": 1, "num_gpus": 1 if self.unit == "GPU" else 0}
        return self._actor.options(**needs, max_restarts=0, max_task_retries=0).remote(self._work)

    def hello(self, handle: Any) -> Any:
        """See Cluster."""
        return handle.hello.remote()

    def run(self, handle: Any, task: dict[str, Any]) -> Any:
        """See Cluster."""
        return handle.run.remote(task)

    def ready(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """See Cluster."""
        if not calls:
            time.sleep(timeout_s)
            return []
        first, rest = self._ray.wait(list(calls), num_returns=1, timeout=timeout_s)
        more = self._ray.wait(rest, num_returns=len(rest), timeout=0)[0] if first and rest else []
        return [*first, *more]

    def result(self, call: Any) -> Any:
        """See Cluster."""
        try:
            return self._ray.get(call, timeout=FETCH_LIMIT_S)
        except self._errors.RayError as error:
            raise loss_of(error) from error

    def kill(self, handle: Any) -> None:
        """See Cluster."""
        self._ray.kill(handle, no_restart=True)

    def close(self) -> None:
        """See Cluster; a connection that others made stays theirs."""
        if self._ours:
            self._ray.shutdown()
