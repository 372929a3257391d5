"""The actor: a RemoteWorker that also knows where Ray has put it."""

from __future__ import annotations

import importlib
from typing import Any

from .remote_worker import RemoteWorker


class RayWorker(RemoteWorker):
    """Made on a node of the cluster, with the GPU that Ray gave it alone in CUDA_VISIBLE_DEVICES."""

    def hello(self) -> dict[str, Any]:
        """See RemoteWorker; also the node and the GPU by Ray's names."""
        ray = importlib.import_module("ray")
        context = ray.get_runtime_context()
        gpus = [str(gpu) for gpu in context.get_accelerator_ids().get("GPU", [])]
        return {**super().hello(), "node": context.get_node_id(), "gpus": gpus, "ray": ray.__version__}
