"""The way into a Ray cluster, with one line for each thing that may stand in it."""

from __future__ import annotations

import importlib
import os
import socket
from typing import Any

from ...errors import UsageError
from .ray_cluster import RayCluster

CONNECT_LIMIT_S = 5.0
_CLIENT = "ray://"


def connect(address: str | None, *, needs_gpu: bool, work: str | None = None) -> RayCluster:
    """The cluster at `address` (None: RAY_ADDRESS, else the one that this machine is a node of).

    Raises UsageError: without Ray, where nobody listens, for other versions, for a cluster without what is needed.
    """
    ray = _ray()
    ours = not ray.is_initialized()
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    if ours:
        _init(ray, where)
    head = ray.get_runtime_context().gcs_address
    cluster = RayCluster(
        ray, address=head if where == "auto" else where, work=work, ours=ours, head_answers=lambda: not _closed(head)
    )
    if needs_gpu and cluster.unit != "GPU":
        told = cluster.describe()
        cluster.close()
        raise UsageError(f"--launcher ray: the points ask for cuda, and {told}; ray start --num-gpus=N adds some")
    if not cluster.capacity():
        told = cluster.describe()
        cluster.close()
        raise UsageError(f"--launcher ray: no worker fits: each needs a whole {cluster.unit} and a CPU; {told}")
    return cluster


def _ray() -> Any:
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.exceptions")  # a mere folder of that name, such as Ray's own in /tmp, has none
    except ImportError as error:
        raise UsageError(f"--launcher ray: needs Ray ({error}); install it: pip install 'stepscope[ray]'") from error
    return ray


def _init(ray: Any, where: str) -> None:
    if where.startswith(_CLIENT):
        raise UsageError(f"--address {where}: is Ray Client's; run the driver on a node of the cluster, with HOST:PORT")
    closed = "" if where == "auto" else _closed(where)
    if closed:
        raise UsageError(
            f"--address {where}: nobody answers there ({closed}); start a cluster with ray start --head, or mend it"
        )
    try:
        ray.init(address=where, log_to_driver=False, logging_level="error")
        # What Ray's nodes have to say would otherwise stand between the lines of our own output.
        vars(importlib.import_module("ray._private.worker"))["_worker_logs_enabled"] = False
    except Exception as error:
        ray.shutdown()
        raise UsageError(f"--launcher ray: {_told(where, error)}") from error


def _told(where: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "Version mismatch" in text:
        return f"{text.replace('Version mismatch: ', '')}; run the driver with the cluster's versions"
    if isinstance(error, ConnectionError) and where == "auto":
        return "this machine is no node of a Ray cluster; start one with ray start --head, or name one with --address"
    return f"the cluster at {where} cannot be joined: {text or type(error).__name__}"


def _closed(address: str) -> str:
    """Why nobody can be reached at `host:port`; empty when somebody listens. Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return "no host:port"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_LIMIT_S):
            return ""
    except OSError as error:
        return error.strerror or str(error)
