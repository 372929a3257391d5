"""A fleet over a cluster made by hand: what it does when workers come late, die, lie, or take their node along."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from stepscope.errors import MeasurementError
from stepscope.experiments.launchers import fleet as module
from stepscope.experiments.launchers.cluster import WorkerLostError
from stepscope.experiments.launchers.fleet import Fleet
from stepscope.experiments.launchers.reply import Reply
from stepscope.experiments.workers.task import Outcome, Task

ENGINE = "e1"


@dataclass(eq=False)
class Call:
    worker: int
    what: str
    task: dict[str, Any] | None = None
    answer: Any = None  # an exception is raised


@dataclass
class Hand:
    """A cluster whose every event is made by the test."""

    room: int
    unit: str = "GPU"
    calls: list[Call] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    spawned: int = 0
    closed: bool = False

    def capacity(self) -> int:
        return self.room

    def describe(self) -> str:
        return f"the cluster has {self.room} GPUs"

    def spawn(self) -> int:
        self.spawned += 1
        return self.spawned - 1

    def hello(self, handle: int) -> Call:
        return self._call(Call(handle, "hello"))

    def run(self, handle: int, task: dict[str, Any]) -> Call:
        return self._call(Call(handle, "run", task))

    def _call(self, call: Call) -> Call:
        self.calls.append(call)
        return call

    def ready(self, calls: list[Call], timeout_s: float) -> list[Call]:
        return [call for call in calls if call.answer is not None]

    def result(self, call: Call) -> Any:
        self.calls.remove(call)
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def kill(self, handle: int) -> None:
        self.killed.append(handle)

    def close(self) -> None:
        self.closed = True

    def of(self, worker: int) -> Call:
        return next(call for call in self.calls if call.worker == worker)

    def arrive(self, *workers: int, engine: str = ENGINE, refused: str = "") -> None:
        for worker in workers:
            identity = {"engine": engine, "gpu_name": "H200"}
            self.of(worker).answer = {
                "host": f"node{worker}", "pid": worker, "device": "0", "identity": identity, "refused": refused,
            }  # fmt: skip

    def finish(self, worker: int, status: str = "ok", kind: str = "", reason: str = "") -> None:
        call = self.of(worker)
        (point,) = Task.from_json(call.task).points
        outcome = Outcome(point.key, status, kind, reason, 0.1, {"metrics": {}})
        files = {point.key: {"recording/rows": b"rows"}} if status == "ok" else {}
        call.answer = Reply((outcome,), files, {"host": f"node{worker}", "identity": {"engine": ENGINE}}).to_plain()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet_of(tmp_path, clock):
    def make(room: int, most: int | None = None) -> tuple[Hand, Fleet]:
        hand = Hand(room)
        return hand, Fleet(hand, tmp_path / "scratch", engine=ENGINE, most=most, now_s=clock)

    return make


def test_workers_count_when_they_have_said_who_they_are(fleet_of):
    hand, fleet = fleet_of(3)
    assert (hand.spawned, fleet.free()) == (3, 0)
    hand.arrive(1)
    assert fleet.wait(0) == []
    assert fleet.free() == 1


def test_a_limit_on_the_workers(fleet_of):
    assert fleet_of(8, most=2)[0].spawned == 2


def test_a_point_comes_back_with_its_files_and_where_it_was(fleet_of, tasks_of, tmp_path):
    hand, fleet = fleet_of(1)
    hand.arrive(0)
    fleet.wait(0)
    (task,) = tasks_of(1)
    fleet.start(task)
    assert fleet.free() == 0
    hand.finish(0)
    (done,) = fleet.wait(0)
    (outcome,) = done.outcomes
    assert (outcome.status, done.lost_elsewhere, fleet.free()) == ("ok", False, 1)
    assert (outcome.folder / "recording" / "rows").read_bytes() == b"rows"
    assert outcome.folder.is_relative_to(tmp_path / "scratch")
    assert done.worker["host"] == "node0"
    assert done.worker["identity"] == {"engine": ENGINE}
    assert "lost" not in done.worker


def test_a_task_goes_where_the_process_is_warm_for_it(fleet_of, tasks_of):
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    first, second, third = tasks_of(3)
    cold = Task(second.number, second.points, "another key")
    fleet.start(first)
    fleet.start(cold)
    hand.finish(0)
    hand.finish(1)
    fleet.wait(0)
    fleet.start(Task(third.number, third.points, "another key"))
    assert hand.of(1).task["number"] == third.number


def test_a_lost_node_gives_its_task_back_and_the_next_attempt_tells_of_it(fleet_of, tasks_of, clock):
    """GIVEN a task on a node that goes WHEN it ran elsewhere THEN its record names the node that it was lost with."""
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    (task,) = tasks_of(1)
    fleet.start(task)
    hand.of(0).answer = WorkerLostError("its node died")
    (done,) = fleet.wait(0)
    assert (done.lost_elsewhere, done.outcomes, done.task) == (True, (), task)
    assert hand.killed == [0]  # a node that only seems dead must not go on
    fleet.start(task)
    hand.finish(1)
    (done,) = fleet.wait(0)
    assert [(one["host"], one["reason"]) for one in done.worker["lost"]] == [("node0", "its node died")]
    assert done.worker["lost"][0]["identity"] == {"engine": ENGINE, "gpu_name": "H200"}
    assert done.worker["host"] == "node1"


def test_a_lost_worker_is_replaced_when_there_is_room(fleet_of, tasks_of, clock):
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    fleet.start(tasks_of(1)[0])
    hand.of(0).answer, hand.room = WorkerLostError("its node died"), 1
    fleet.wait(0)
    clock.now = module.LOOK_EVERY_S
    fleet.wait(0)
    assert hand.spawned == 2  # the other node's worker is all that there is room for
    hand.room, clock.now = 2, 2 * module.LOOK_EVERY_S
    fleet.wait(0)
    assert hand.spawned == 3


def test_a_task_that_takes_three_nodes_down_has_failed(fleet_of, tasks_of):
    hand, fleet = fleet_of(4)
    hand.arrive(0, 1, 2, 3)
    fleet.wait(0)
    (task,) = tasks_of(1)
    for worker in range(3):
        fleet.start(task)
        hand.of(worker).answer = WorkerLostError(f"its node {worker} died")
        (done,) = fleet.wait(0)
    (outcome,) = done.outcomes
    assert (outcome.status, outcome.kind, done.lost_elsewhere) == ("failed", "lost", False)
    assert outcome.reason == "lost 3 workers, the last one so: its node 2 died"


def test_a_killed_worker_is_a_failed_point_and_no_other_try(fleet_of, tasks_of, clock):
    hand, fleet = fleet_of(1)
    hand.arrive(0)
    fleet.wait(0)
    fleet.start(tasks_of(1)[0])
    clock.now = 2.5
    hand.of(0).answer = WorkerLostError("the worker was killed", kind="killed", elsewhere=False)
    (done,) = fleet.wait(0)
    (outcome,) = done.outcomes
    assert (outcome.status, outcome.kind, outcome.wall_s) == ("failed", "killed", 2.5)
    assert not done.lost_elsewhere


def test_a_node_without_room_on_its_disk_is_used_no_more(fleet_of, tasks_of, clock):
    """It would fail every point that it gets, faster than the others succeed; and its GPU is not asked for again."""
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    (task,) = tasks_of(1)
    fleet.start(task)
    hand.finish(0, "failed", "disk", "No space left on device")
    (done,) = fleet.wait(0)
    assert done.lost_elsewhere
    clock.now = 2 * module.LOOK_EVERY_S
    fleet.wait(0)
    assert (fleet.free(), hand.spawned, hand.killed) == (1, 2, [])


def test_a_worker_with_other_code_is_not_used(fleet_of):
    hand, fleet = fleet_of(2)
    hand.arrive(0, engine="e2")
    hand.arrive(1)
    fleet.wait(0)
    assert fleet.free() == 1


def test_nobody_with_our_code(fleet_of):
    hand, fleet = fleet_of(1)
    hand.arrive(0, engine="e2")
    with pytest.raises(
        MeasurementError,
        match=r"no worker could be started: node0 has another stepscope \(e2, here e1\); install the same everywhere;",
    ):
        fleet.wait(0)


def test_a_gpu_that_somebody_else_measures_on(fleet_of):
    hand, fleet = fleet_of(1)
    hand.arrive(0, refused="GPU-1: process 7 measures on this GPU")
    with pytest.raises(MeasurementError, match="process 7 measures on this GPU"):
        fleet.wait(0)


def test_workers_that_die_at_their_start_end_the_sweep(fleet_of, clock):
    hand, fleet = fleet_of(1)
    for attempt in range(module.MAX_BAD_STARTS):
        hand.of(attempt).answer = WorkerLostError("No module named 'stepscope'", kind="error", elsewhere=False)
        clock.now += module.LOOK_EVERY_S
        if attempt < module.MAX_BAD_STARTS - 1:
            assert fleet.wait(0) == []
    with pytest.raises(MeasurementError, match="could be started: No module named 'stepscope'; the cluster has 1 GPUs"):
        fleet.wait(0)
    assert hand.spawned == module.MAX_BAD_STARTS


def test_a_worker_that_never_gets_a_gpu(fleet_of, clock):
    _, fleet = fleet_of(1)
    clock.now = module.START_LIMIT_S
    assert fleet.wait(0) == []
    clock.now += 1
    with pytest.raises(MeasurementError, match="no worker came within 300 s: each needs a whole GPU; the cluster"):
        fleet.wait(0)


def test_a_cluster_without_nodes_for_a_while(fleet_of, tasks_of, clock):
    """GIVEN the last node goes WHEN another comes within the limit THEN the sweep goes on."""
    hand, fleet = fleet_of(1)
    hand.arrive(0)
    fleet.wait(0)
    (task,) = tasks_of(1)
    fleet.start(task)
    hand.of(0).answer, hand.room = WorkerLostError("its node died"), 0
    assert fleet.wait(0)[0].lost_elsewhere
    clock.now = module.START_LIMIT_S - 1
    assert (fleet.wait(0), hand.spawned) == ([], 1)
    hand.room, clock.now = 1, module.START_LIMIT_S + module.LOOK_EVERY_S
    fleet.wait(0)
    clock.now += module.START_LIMIT_S
    hand.arrive(1)
    fleet.wait(0)
    assert fleet.free() == 1


def test_an_answer_about_other_points_is_garbage(fleet_of, tasks_of):
    hand, fleet = fleet_of(1)
    hand.arrive(0)
    fleet.wait(0)
    fleet.start(tasks_of(1)[0])
    hand.of(0).answer = {"outcomes": [], "files": {}, "worker": {}}
    (done,) = fleet.wait(0)
    assert [(one.status, one.kind) for one in done.outcomes] == [("failed", "garbage")]
    assert fleet.free() == 1


def test_what_has_ended_is_kept_before_the_sweep_is_given_up(fleet_of, tasks_of, clock):
    """GIVEN a point's end and the end of the cluster in one look THEN the point comes first, and nothing begins."""
    hand, fleet = fleet_of(1)
    hand.arrive(0)
    fleet.wait(0)
    fleet.start(tasks_of(1)[0])
    hand.finish(0)

    def gone():
        raise MeasurementError("the head is silent")

    hand.capacity, clock.now = gone, module.LOOK_EVERY_S
    (done,) = fleet.wait(0)
    assert done.outcomes[0].status == "ok"
    assert fleet.free() == 0
    with pytest.raises(MeasurementError, match="silent"):
        fleet.wait(0)


def test_a_sweep_is_given_up_also_while_points_end_all_the_time(fleet_of, tasks_of, clock):
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    for task in tasks_of(2):
        fleet.start(task)

    def gone():
        raise MeasurementError("the head is silent")

    hand.capacity, clock.now = gone, module.LOOK_EVERY_S
    hand.finish(0)
    assert len(fleet.wait(0)) == 1
    # WHEN another one ends before the next look
    hand.finish(1)
    with pytest.raises(MeasurementError, match="silent"):
        fleet.wait(0)


def test_an_interrupt_ends_the_workers_and_keeps_nothing(fleet_of, tasks_of):
    hand, fleet = fleet_of(2)
    hand.arrive(0, 1)
    fleet.wait(0)
    fleet.start(tasks_of(1)[0])
    fleet.interrupt()
    (done,) = fleet.wait(0)
    assert [one.status for one in done.outcomes] == ["interrupted"]
    assert hand.killed == [0]


def test_closing_ends_every_worker_and_leaves_the_cluster(fleet_of):
    hand, fleet = fleet_of(2)
    fleet.close()
    assert (hand.killed, hand.closed) == ([0, 1], True)
