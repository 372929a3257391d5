"""Tasks whose worker's node went away: where they were, and when that has been often enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..workers.task import Task

MOST = 3
"""Nodes that may be lost under one task. One that takes down every node that it comes to is not the nodes' fault."""


class TaskLosses:
    """Attempts of tasks that came to no end, in order."""

    def __init__(self) -> None:
        self._found: dict[int, list[dict[str, Any]]] = {}

    def add(self, task: Task, where: Mapping[str, Any], reason: str) -> None:
        """One more attempt of `task`, by a worker that said `where` it was."""
        self._found.setdefault(task.number, []).append({**where, "reason": reason})

    def facts(self, task: Task) -> dict[str, Any]:
        """For the record of the attempt that counts: {"lost": [...]}, or nothing."""
        lost = self._found.get(task.number)
        return {"lost": list(lost)} if lost else {}

    def too_many(self, task: Task) -> str:
        """Why `task` is not tried again; empty while it is."""
        lost = self._found.get(task.number, [])
        if len(lost) < MOST:
            return ""
        return f"lost {len(lost)} workers, the last one so: {lost[-1]['reason']}"
