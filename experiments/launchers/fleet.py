"""Workers of a cluster as one launcher: they come when there is room, go when their node does, and are replaced."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ...errors import MeasurementError
from ..workers.failures import describe
from ..workers.task import Task, TaskDone, all_failed, all_interrupted
from .cluster import Cluster, WorkerLostError
from .member import Member, State
from .reply import Reply
from .task_losses import TaskLosses

START_LIMIT_S = 300.0
"""Without any worker, until the sweep is given up: since the last one went, or since one was asked for."""
LOOK_EVERY_S = 5.0
"""Between two looks at what the cluster has: nodes come and go."""
MAX_BAD_STARTS = 3
"""Workers in a row that end before they are there, until no more are asked for."""


class Fleet:
    """Implements Launcher over a Cluster.

    scratch  where files of points are put on this machine
    engine   digest of the driver's own code: a worker with another one is not used
    most     workers at most; None: as many as the cluster has room for
    """

    def __init__(
        self, cluster: Cluster, scratch: Path, *, engine: str, most: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._cluster, self._scratch, self._engine, self._most = cluster, scratch, engine, most
        self._now_s = now_s
        self._members: list[Member] = []
        self._losses = TaskLosses()
        self._given_up: list[TaskDone] = []
        self._bad_starts: list[str] = []
        self._over: MeasurementError | None = None
        self._idle_since_s = self._looked_s = now_s()
        self._grow()

    def free(self) -> int:
        """See Launcher. Nobody is, once the sweep is given up."""
        return 0 if self._over else sum(member.state is State.IDLE for member in self._members)

    def start(self, task: Task) -> None:
        """To the worker that is warm for it, else to any free one."""
        idle = [member for member in self._members if member.state is State.IDLE]
        member = next((one for one in idle if one.key == task.key), idle[0])
        member.begin(task, self._cluster.run(member.handle, task.to_json()), self._now_s())

    def wait(self, timeout_s: float) -> list[TaskDone]:
        """See Launcher. Raises MeasurementError when there is no worker, and none comes."""
        done, self._given_up = self._given_up, []
        if done:
            return done
        if self._over:
            raise self._over
        waiting = {member.call: member for member in self._members if member.call is not None}
        for call in self._cluster.ready(list(waiting), timeout_s):
            ended = self._answered(waiting[call])
            if ended is not None:
                done.append(ended)
        try:
            self._look_after()
        except MeasurementError as error:
            if not done:
                raise
            self._over = error  # what has ended is kept first
        return done

    def _answered(self, member: Member) -> TaskDone | None:
        """What the call of `member` brings; None for a worker that has said who it is."""
        task = member.task
        try:
            answer = self._cluster.result(member.call)
        except WorkerLostError as error:
            return self._lost(member, error)
        if task is None:
            member.arrived(answer, self._engine)
            if not member.refused:
                self._bad_starts = []
            return None
        done = self._unpacked(member, task, Reply.from_plain(answer))
        if any(outcome.kind == "disk" for outcome in done.outcomes):  # its own disk: the next point would fail as well
            reason = next(outcome.reason for outcome in done.outcomes if outcome.kind == "disk")
            member.retire(f"no room for files: {reason}")
            return self._elsewhere(member, task, member.refused)
        member.rest()
        return done

    def _unpacked(self, member: Member, task: Task, reply: Reply) -> TaskDone:
        folder = self._scratch / f"task-{task.number}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            done = reply.unpacked(task, folder)
        except ValueError as error:
            done = TaskDone(task, all_failed(task, "garbage", describe(error), self._now_s() - member.since_s))
        return TaskDone(task, done.outcomes, {**member.facts, **reply.worker, **self._losses.facts(task)})

    def _lost(self, member: Member, error: WorkerLostError) -> TaskDone | None:
        self._members.remove(member)
        self._cluster.kill(member.handle)  # what only seems to be gone must not go on measuring
        task = member.task
        if task is None:
            self._bad_starts.append(str(error))
            return None
        if error.elsewhere:
            return self._elsewhere(member, task, str(error))
        outcomes = all_failed(task, error.kind, str(error), self._now_s() - member.since_s)
        return TaskDone(task, outcomes, {**member.facts, **self._losses.facts(task)})

    def _elsewhere(self, member: Member, task: Task, reason: str) -> TaskDone:
        """`task` may be run again, unless it has been so often that it is more likely the one to blame."""
        self._losses.add(task, member.facts, reason)
        facts = {**member.facts, **self._losses.facts(task)}
        told = self._losses.too_many(task)
        if told:
            return TaskDone(task, all_failed(task, "lost", told, self._now_s() - member.since_s), facts)
        return TaskDone(task, (), facts, lost_elsewhere=True)

    def _look_after(self) -> None:
        """Replace who has gone; give up when nobody is there and nobody comes."""
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._grow()
        if any(member.state in (State.IDLE, State.WORKING) for member in self._members):
            self._idle_since_s = now_s
            return
        starting = any(member.state is State.STARTING for member in self._members)
        if not starting and (self._bad_starts or self._refusals()):
            raise MeasurementError(f"no worker could be started: {self._why()}; {self._cluster.describe()}")
        if now_s - self._idle_since_s > START_LIMIT_S:
            raise MeasurementError(
                f"no worker came within {START_LIMIT_S:g} s: each needs a whole {self._cluster.unit};"
                f" {self._cluster.describe()}"
            )

    def _refusals(self) -> list[str]:
        return [member.refused for member in self._members if member.refused]

    def _why(self) -> str:
        return "; ".join(dict.fromkeys([*self._bad_starts, *self._refusals()]))

    def _grow(self) -> None:
        """Ask for as many workers as there is room for. Who was retired keeps its place: nobody else shall take it."""
        if len(self._bad_starts) >= MAX_BAD_STARTS:
            return
        room = self._cluster.capacity()
        wanted = room if self._most is None else min(room, self._most)
        for _ in range(wanted - len(self._members)):
            self._idle_since_s = self._now_s()
            handle = self._cluster.spawn()
            self._members.append(Member(handle, self._cluster.hello(handle)))

    def interrupt(self) -> None:
        """See Launcher: workers of a cluster end at once, and nothing of their points is kept."""
        for member in list(self._members):
            if member.state is State.WORKING:
                assert member.task is not None
                self._given_up.append(TaskDone(member.task, all_interrupted(member.task)))
                self._members.remove(member)
                self._cluster.kill(member.handle)

    def close(self) -> None:
        """See Launcher."""
        for member in self._members:
            self._cluster.kill(member.handle)
        self._members = []
        self._cluster.close()
