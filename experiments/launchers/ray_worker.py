"""The actor: a RemoteWorker that also knows where Ray has put it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ...instrumentation.visible import VARIABLE
from .remote_worker import RemoteWorker


class RayWorker(RemoteWorker):
    """Made on a node of the cluster, with the GPU that Ray gave it alone in CUDA_VISIBLE_DEVICES."""

    def __init__(self, work: str | None = None) -> None:
        self._ray = importlib.import_module("ray")
        context = self._ray.get_runtime_context()
        self._node: str = context.get_node_id()
        self._gpus = [str(gpu) for gpu in context.get_accelerator_ids().get("GPU", [])]
        if self._gpus:  # Ray can be told to leave the variable alone; then all workers of a node would share one GPU
            os.environ[VARIABLE] = ",".join(self._gpus)
        super().__init__(work)

    def hello(self) -> dict[str, Any]:
        """See RemoteWorker; also the node and the GPU by Ray's names."""
        return {**super().hello(), "node": self._node, "gpus": self._gpus, "ray": self._ray.__version__}
