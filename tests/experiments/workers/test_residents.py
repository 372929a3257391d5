"""Workers that live side by side: each launch stays with its process, whoever is free."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from stepscope.experiments.workers.residents import AHEAD, Residents
from stepscope.experiments.workers.task import Task, TaskDone


@dataclass
class FakeWorker:
    """Ends what it has when told to; notes every process that it would have had to start."""

    log: list[str] = field(default_factory=list)
    task: Task | None = None
    may_end: bool = False
    key: str | None = None
    starts: int = 0
    interrupted: bool = False

    @property
    def busy(self) -> bool:
        return self.task is not None

    due_s = None

    def streams(self) -> list[int]:
        return []

    def start(self, task: Task) -> None:
        assert self.task is None
        self.starts += task.key != self.key
        self.task, self.key = task, task.key
        self.log.append(f"{task.key}/{task.number}")

    def poll(self) -> TaskDone | None:
        if self.task is None or not self.may_end:
            return None
        done, self.task = TaskDone(self.task, ()), None
        return done

    def interrupt(self) -> None:
        self.interrupted = True

    def close(self) -> None:
        self.task = None


def task(number: int, launch: int) -> Task:
    point: Any = SimpleNamespace(key=f"p{number}")
    return Task(number, (point,), f"launch-{launch}")


def test_a_task_waits_for_the_process_of_its_launch() -> None:
    # GIVEN two launches of three cells, and a second process that is always faster
    workers = [FakeWorker(), FakeWorker(may_end=True)]
    residents = Residents(workers)  # type: ignore[arg-type]
    queue = [task(number, number % 2) for number in range(6)]
    ended: list[int] = []
    for _ in range(20):
        while queue and residents.free():
            residents.start(queue.pop(0))
        ended += [done.task.number for done in residents.wait(0.0)]
        if len(ended) >= 2:
            workers[0].may_end = True
    # THEN nobody was started twice, and each went through its own in order
    assert sorted(ended) == list(range(6))
    assert [worker.starts for worker in workers] == [1, 1]
    assert workers[0].log == ["launch-0/0", "launch-0/2", "launch-0/4"]
    assert workers[1].log == ["launch-1/1", "launch-1/3", "launch-1/5"]


def test_it_takes_a_task_ahead_for_each_worker_and_no_more() -> None:
    residents = Residents([FakeWorker(), FakeWorker()])  # type: ignore[list-item]
    assert residents.free() == 2 * AHEAD
    for number in range(2 * AHEAD):
        residents.start(task(number, number % 2))
    assert residents.free() == 0


def test_an_interrupt_gives_back_what_was_not_begun() -> None:
    workers = [FakeWorker()]
    residents = Residents(workers)  # type: ignore[arg-type]
    residents.start(task(0, 0))
    residents.start(task(1, 0))
    residents.interrupt()
    (given_back,) = residents.wait(0.0)
    assert (given_back.task.number, [one.status for one in given_back.outcomes]) == (1, ["interrupted"])
    assert workers[0].interrupted
    assert workers[0].task is not None
    assert workers[0].task.number == 0


def test_more_launches_than_workers_go_around() -> None:
    workers = [FakeWorker(may_end=True), FakeWorker(may_end=True)]
    residents = Residents(workers)  # type: ignore[arg-type]
    for number in range(3):
        residents.start(task(number, number))
    for _ in range(10):
        residents.wait(0.0)
    assert workers[0].log == ["launch-0/0", "launch-2/2"]
    assert workers[1].log == ["launch-1/1"]
