"""What an output option may name besides a file: a link, a pipe, a device. None of them is replaced by a file."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stepscope.experiments.files import _is_stream, write_atomically


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    # GIVEN links to a file that is there, and to one that is not yet
    real, later = tmp_path / "results" / "real.json", tmp_path / "results" / "later.json"
    real.parent.mkdir()
    real.write_text("old")
    for link, target in ((tmp_path / "a", real), (tmp_path / "b", later)):
        link.symlink_to(target)
        # WHEN they are written to THEN the text is where they lead
        write_atomically(link, "new")
        assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert sorted(path.name for path in real.parent.iterdir()) == ["later.json", "real.json"]


@pytest.mark.parametrize("above", ["missing", "file"])
def test_what_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path, above: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="directory") as raised:
        write_atomically(tmp_path / above / "gate.json", "new")
    assert raised.value.filename == str(tmp_path / above / "gate.json")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        write_atomically(pipe, "all of it ☃\n")
        assert read.result() == "all of it ☃\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        ("/dev/null", True), ("/dev/stdout", True), ("/dev/fd/3", True), ("/proc/self/fd/1", True),
        ("/dev/shm/out/report.html", False), ("report.html", False), ("/development/report.html", False), ("/", False),
    ],
)  # fmt: skip
def test_devices_are_known_by_where_they_lie(path: str, stream: bool) -> None:
    assert _is_stream(Path(path)) is stream


def test_a_name_as_long_as_names_can_be_is_taken(tmp_path: Path) -> None:
    for name in ("a" * 255, "☃" * 85):
        write_atomically(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"
