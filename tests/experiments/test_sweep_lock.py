"""One driver at a time: live owners are respected, dead ones are not, and no clock is asked."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.experiments import lock as lock_module
from stepscope.experiments.lock import BEAT_EVERY_S, LOCK_FILE, WATCH_S, SweepLock

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


class Time:
    """Passes while somebody sleeps; `meanwhile` is called then."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.now_s = 1000.0
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._meanwhile()

    def __call__(self) -> float:
        return self.now_s


def lock_in(folder: Path, time: Time | None = None) -> SweepLock:
    time = time or Time()
    return SweepLock(folder, sleep=time.sleep, now_s=time)


def owner(folder: Path) -> dict[str, object]:
    found = json.loads((folder / LOCK_FILE).read_text())
    assert isinstance(found, dict)
    return found


def leave(folder: Path, **fields: object) -> None:
    """A lock that somebody left behind."""
    with lock_in(folder):
        mine = owner(folder)
    (folder / LOCK_FILE).write_text(json.dumps({**mine, "token": "theirs", **fields}))


def test_a_second_driver_is_refused_by_the_first_ones_name(tmp_path: Path) -> None:
    with lock_in(tmp_path):
        assert owner(tmp_path)["pid"] == os.getpid()
        with pytest.raises(UsageError) as caught, lock_in(tmp_path):
            raise AssertionError("two drivers at once")
        assert f"process {os.getpid()} on " in str(caught.value)
        assert "is working on this sweep; wait for it to end, or choose another --out" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@linux
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    leave(tmp_path, pid=child.pid)
    with lock_in(tmp_path):
        assert owner(tmp_path)["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


@linux
def test_a_process_number_that_was_given_out_again_does_not_count(tmp_path: Path) -> None:
    leave(tmp_path, started="1")
    with lock_in(tmp_path):
        assert owner(tmp_path)["token"] != "theirs"


def test_elsewhere_a_beat_that_stands_still_is_a_dead_owner(tmp_path: Path) -> None:
    leave(tmp_path, host="node-7")
    time = Time()
    with lock_in(tmp_path, time):
        assert time.now_s >= 1000.0 + WATCH_S
        assert owner(tmp_path)["host"] != "node-7"


def test_elsewhere_a_beat_that_moves_is_a_live_one(tmp_path: Path) -> None:
    leave(tmp_path, host="node-7")
    beats = iter(range(1, 1000))

    def beat() -> None:
        (tmp_path / LOCK_FILE).write_text(json.dumps({**owner(tmp_path), "beat": next(beats)}))

    with pytest.raises(UsageError, match="on node-7 is working on this sweep"), lock_in(tmp_path, Time(beat)):
        raise AssertionError("two drivers at once")
    assert owner(tmp_path)["host"] == "node-7"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', "[" * 20_000 + "]" * 20_000], ids=["empty", "cut", "list", "part", "deep"]
)
def test_a_damaged_lock_keeps_nobody_out(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK_FILE).write_text(content)
    with lock_in(tmp_path):
        assert owner(tmp_path)["pid"] == os.getpid()


def test_a_folder_where_the_lock_belongs_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with (
        pytest.raises(UsageError, match=r"sweep\.lock: is a folder where a lock belongs; remove it"),
        lock_in(tmp_path),
    ):
        raise AssertionError("nothing is locked")
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


@pytest.mark.parametrize("links", [True, False])
def test_a_lock_that_is_given_back_replaces_no_third_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    # GIVEN a stale lock that a second driver takes over just before it is claimed here, and a third one right behind
    if not links:
        monkeypatch.setattr(lock_module.os, "link", no_links)
    leave(tmp_path, pid=1, started="1")
    mine = {**owner(tmp_path), "pid": os.getpid(), "started": lock_module._started(os.getpid())}
    rename = Path.rename

    def overtaken(path: Path, target: Path) -> Path:
        if path.name != LOCK_FILE:
            return rename(path, target)
        (tmp_path / LOCK_FILE).write_text(json.dumps({**mine, "token": "second"}))
        result = rename(path, target)
        (tmp_path / LOCK_FILE).write_text(json.dumps({**mine, "token": "third"}))
        return result

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(UsageError, match="is working on this sweep"), lock_in(tmp_path):
        raise AssertionError("two drivers at once")
    assert owner(tmp_path)["token"] == "third"
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def full(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_with_the_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = rf"sweep\.lock: cannot be written \(No space left on device\).*perf sweep --resume --out {tmp_path}"
    with monkeypatch.context() as first:
        first.setattr(Path, "write_text", full)
        with pytest.raises(UsageError, match=words), lock_in(tmp_path):
            raise AssertionError("nothing is locked")
    time = Time()
    with lock_in(tmp_path, time) as lock:
        monkeypatch.setattr(lock_module, "write_atomically", full)
        time.now_s += BEAT_EVERY_S
        with pytest.raises(UsageError, match=words):
            lock.beat()


def test_a_beat_is_seen_and_a_stolen_lock_is_noticed(tmp_path: Path) -> None:
    time = Time()
    with lock_in(tmp_path, time) as lock:
        lock.beat()
        assert owner(tmp_path)["beat"] == 0
        time.now_s += BEAT_EVERY_S
        lock.beat()
        assert owner(tmp_path)["beat"] == 1
        time.now_s -= 500  # a clock that goes back only delays the next beat
        lock.beat()
        lock.check()
        (tmp_path / LOCK_FILE).write_text(
            json.dumps({**owner(tmp_path), "token": "theirs", "pid": 5, "host": "node-7"})
        )
        with pytest.raises(UsageError, match="was taken over by process 5 on node-7"):
            lock.check()
    assert owner(tmp_path)["token"] == "theirs", "a lock of somebody else was removed"
