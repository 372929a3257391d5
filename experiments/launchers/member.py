"""One worker of a fleet."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..workers.task import Task
from .cluster import Call, Handle


class State(enum.Enum):
    """STARTING until it has said who it is, then IDLE and WORKING by turns; RETIRED: it holds its place, unused."""

    STARTING = enum.auto()
    IDLE = enum.auto()
    WORKING = enum.auto()
    RETIRED = enum.auto()


@dataclass(slots=True, eq=False)
class Member:
    """A worker, what it was asked last, and what is known of it.

    facts    who and where it is, from its hello
    refused  why it is not used
    key      of the last task: its process is warm for such
    """

    handle: Handle
    call: Call | None
    state: State = State.STARTING
    facts: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    key: str | None = None
    task: Task | None = None
    since_s: float = 0.0

    def arrived(self, hello: Mapping[str, Any], engine: str) -> None:
        """It has said who it is. Who runs other code than the driver is not used: its points would not belong here."""
        self.facts = {name: value for name, value in hello.items() if name != "refused"}
        refused = str(hello["refused"])
        theirs = hello["identity"]["engine"]
        if not refused and theirs != engine:
            refused = f"{hello['host']} has another stepscope ({theirs}, here {engine}); install the same everywhere"
        if refused:
            self.retire(refused)
        else:
            self.rest()

    def begin(self, task: Task, call: Call, now_s: float) -> None:
        """It was handed `task`."""
        self.state, self.task, self.key, self.call, self.since_s = State.WORKING, task, task.key, call, now_s

    def rest(self) -> None:
        """It is there, with nothing to do."""
        self.state, self.task, self.call = State.IDLE, None, None

    def retire(self, reason: str) -> None:
        """Nothing more for it."""
        self.state, self.task, self.call, self.refused = State.RETIRED, None, None, reason
