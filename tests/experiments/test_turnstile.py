"""Processes that live side by side: they build together, measure alone, and nobody overtakes a round."""

import fcntl
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

from stepscope.experiments.turnstile import ENVIRONMENT, Alone, Turnstile, turns_of_process

WORKER = """
import sys
from pathlib import Path
from stepscope.experiments.turnstile import Turnstile
turns, log, name = Turnstile(Path(sys.argv[1])), open(sys.argv[2], "a", buffering=1), sys.argv[3]
for cell in range(3):
    with turns.building():
        log.write(f"{name} {cell} builds\\n")
    with turns.measuring():
        log.write(f"{name} {cell} begins\\n")
        log.write(f"{name} {cell} ends\\n")
"""


def test_one_measures_at_a_time_and_nobody_builds_meanwhile(tmp_path: Path) -> None:
    # GIVEN three processes that go through three cells
    log = tmp_path / "log"
    command = [sys.executable, "-c", WORKER, str(tmp_path / "locks"), str(log)]
    workers = [subprocess.Popen([*command, name], env=os.environ) for name in "abc"]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 27
    # THEN what follows a beginning is the same one's end
    for line, following in pairwise(lines):
        if line[2] == "begins":
            assert following == [line[0], line[1], "ends"]
    # AND each went through its cells in order
    for name in "abc":
        assert [line[1:] for line in lines if line[0] == name] == [
            [cell, word] for cell in "012" for word in ("builds", "begins", "ends")
        ]


def test_builders_come_together_and_who_wants_to_build_waits_for_all_that_want_to_measure(tmp_path: Path) -> None:
    one, two, three = (Turnstile(tmp_path) for _ in range(3))
    order: list[str] = []
    both_build, wants = threading.Barrier(2, timeout=20), threading.Event()

    def second() -> None:
        with two.building():
            both_build.wait()  # passes only while the first one builds as well
        with two.measuring():
            order.append("second measures")

    def third() -> None:
        wants.set()
        with three.building():
            order.append("third builds")

    threads = [threading.Thread(target=second), threading.Thread(target=third)]
    threads[0].start()
    with one.building():
        both_build.wait()
    with one.measuring():
        order.append("first measures")
        threads[1].start()
        assert wants.wait(20)
        order.append("first ends")
    for thread in threads:
        thread.join(20)
    assert order.index("first ends") == order.index("first measures") + 1
    assert order.index("third builds") > order.index("first ends")


def free_for(path: Path, kind: int) -> bool:
    """Whether somebody else could have this lock now."""
    with path.open() as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_who_measures_is_alone_in_the_room_and_who_builds_is_not(tmp_path: Path) -> None:
    turns, room, waiting = Turnstile(tmp_path), tmp_path / "room.lock", tmp_path / "waiting.lock"
    with turns.building():
        assert free_for(room, fcntl.LOCK_SH)
        assert not free_for(room, fcntl.LOCK_EX)
        assert free_for(waiting, fcntl.LOCK_EX)  # others may come in
    with turns.measuring():
        assert not free_for(room, fcntl.LOCK_SH)
        assert free_for(waiting, fcntl.LOCK_SH)  # others may wait for the same
        assert not free_for(waiting, fcntl.LOCK_EX)  # and nobody passes to build
    assert free_for(room, fcntl.LOCK_EX)
    assert free_for(waiting, fcntl.LOCK_EX)


def test_a_process_without_a_turnstile_is_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert isinstance(turns_of_process(), Alone)
    with Alone().building(), Alone().measuring():
        pass
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "locks"))
    assert isinstance(turns_of_process(), Turnstile)


def is_free(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_an_exception_gives_the_turn_back(tmp_path: Path) -> None:
    turns = Turnstile(tmp_path)
    for work in (turns.building, turns.measuring, turns.building, turns.measuring):
        try:
            with work():
                raise ValueError("in the middle")
        except ValueError:
            assert all(map(is_free, tmp_path.iterdir()))
    assert {path.name for path in tmp_path.iterdir()} == {"room.lock", "waiting.lock"}
