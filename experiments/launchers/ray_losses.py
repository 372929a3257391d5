"""What an exception of Ray says: was it the task, its worker, or the node. By name and text: it needs no Ray."""

from __future__ import annotations

import re

from .cluster import WorkerLostError

_MEMORY = ("low on memory", "out of memory", "oom killer killed", "memory usage threshold")
_NODE = ("node has died", "node died", "node was terminated", "node failure", "node was preempted", "node is dead")
_ELSEWHERE = {
    "ActorUnavailableError": "its node does not answer",
    "NodeDiedError": "its node died",
    "OwnerDiedError": "its result was lost with its node",
    "ObjectLostError": "its result was lost with its node",
    "GetTimeoutError": "its result did not arrive",
    "RpcError": "its node does not answer",
}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def loss_of(error: Exception) -> WorkerLostError:
    """The same, in our words. Memory comes first: a worker that was ended for it would take down the next node too."""
    names = [kind.__name__ for kind in type(error).__mro__]
    text = _ANSI.sub("", str(error))
    told = text.lower()
    if "OutOfMemoryError" in names or any(words in told for words in _MEMORY):
        return WorkerLostError("Ray ended the worker: its node ran low on memory", kind="host_oom", elsewhere=False)
    if getattr(error, "preempted", False):
        return WorkerLostError("its node was preempted")
    for name in names:
        if name in _ELSEWHERE:
            return WorkerLostError(f"{_ELSEWHERE[name]} ({_short(text)})")
    if "ObjectStoreFullError" in names or "OutOfDiskError" in names:
        return WorkerLostError(
            f"its results do not fit into the object store ({_short(text)}); measure fewer steps, or give"
            " the nodes more with ray start --object-store-memory",
            kind="error", elsewhere=False,
        )  # fmt: skip
    if any(words in told for words in _NODE):
        return WorkerLostError(f"its node died ({_short(text)})")
    if "ActorDiedError" in names and "RayTaskError" not in names and "creation task" not in told:
        return WorkerLostError(f"the worker of Ray was killed ({_cause(text)})", kind="killed", elsewhere=False)
    return WorkerLostError(_last_line(text) or type(error).__name__, kind="error", elsewhere=False)


def _short(text: str) -> str:
    """The first sentence."""
    return " ".join(text.split()).split(". ")[0][:200].rstrip(".")


def _cause(text: str) -> str:
    """What Ray says below the names of the actor: `Worker exit type: SYSTEM_ERROR Worker exit detail: ...`."""
    found = re.search(r"(?:exit detail:|error type:)\s*([^.]+)", " ".join(text.split()), re.IGNORECASE)
    return found.group(1)[:200] if found else _short(text)


def _last_line(text: str) -> str:
    """Of a traceback: the exception itself."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
