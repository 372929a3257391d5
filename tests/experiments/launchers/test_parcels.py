"""Files of points that travel without a disk."""

import pytest
from stepscope.errors import MeasurementError
from stepscope.experiments.launchers import reply as module
from stepscope.experiments.launchers.parcels import read_files, write_files
from stepscope.experiments.launchers.reply import Reply
from stepscope.experiments.workers.task import Outcome, TaskDone


def folder_with(tmp_path, **files):
    for name, content in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_what_is_sent_arrives(tmp_path):
    files = read_files(folder_with(tmp_path / "a", summary=b"\0\xff", recording__steps=b"rows"))
    assert files == {"summary": b"\0\xff", "recording/steps": b"rows"}
    write_files(files, tmp_path / "b" / "c")
    assert read_files(tmp_path / "b" / "c") == files


def test_a_link_leads_nowhere(tmp_path):
    folder = folder_with(tmp_path / "a", rows=b"rows")
    (folder / "secret").symlink_to("/etc/hostname")
    assert read_files(folder) == {"rows": b"rows"}


def test_too_much_to_send_is_said_before_it_is_read(tmp_path):
    with pytest.raises(MeasurementError, match=r"its files are 3 MiB, and a worker sends at most 2;.*measure.steps"):
        read_files(folder_with(tmp_path / "a", rows=bytes(3 << 20)), max_bytes=2 << 20)


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", ""])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="leads out"):
        write_files({name: b"x"}, tmp_path / "inner")
    assert not (tmp_path / "out").exists()


def test_a_reply_is_plain_data(tmp_path, tasks_of):
    (task,) = tasks_of(1)
    key = task.points[0].key
    folder = folder_with(tmp_path / "worker", recording__steps=b"rows")
    done = TaskDone(task, (Outcome(key, "ok", wall_s=0.5, record={"metrics": {"a": 1}}, folder=folder),), {"pid": 3})
    plain = Reply.of(done).to_plain()
    assert plain["outcomes"][0]["folder"] is None
    here = Reply.from_plain(plain).unpacked(task, tmp_path / "driver")
    (outcome,) = here.outcomes
    assert (outcome.record, outcome.folder) == ({"metrics": {"a": 1}}, tmp_path / "driver" / key)
    assert (outcome.folder / "recording" / "steps").read_bytes() == b"rows"
    assert here.worker == {"pid": 3}


def test_a_point_whose_files_cannot_be_sent_has_failed(tmp_path, tasks_of, monkeypatch):
    (task,) = tasks_of(1)
    folder = folder_with(tmp_path / "worker", rows=b"rows")
    monkeypatch.setattr(module, "read_files", lambda folder: read_files(folder, max_bytes=1))
    reply = Reply.of(TaskDone(task, (Outcome(task.points[0].key, "ok", folder=folder),)))
    assert [(one.status, one.kind) for one in reply.outcomes] == [("failed", "invalid")]
    assert "a worker sends at most" in reply.outcomes[0].reason
    assert reply.files == {}
