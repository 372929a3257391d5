"""What a power failure may take: nothing of a folder that was published."""

import os

import pytest
from stepscope.experiments import files


def test_everything_is_on_disk_before_the_folder_has_its_name(tmp_path, monkeypatch):
    """GIVEN files at two depths WHEN the folder is published THEN each, and each folder, was forced first."""
    temporary, final = tmp_path / "work", tmp_path / "points" / "a"
    (temporary / "recording").mkdir(parents=True)
    final.parent.mkdir()
    made = [temporary, temporary / "recording", temporary / "summary.json", temporary / "recording" / "steps.parquet"]
    for path in made[2:]:
        path.write_text("x")
    inodes = {path.stat().st_ino for path in made}
    forced = []

    def fsync(descriptor):
        forced.append((os.fstat(descriptor).st_ino, final.exists()))

    monkeypatch.setattr(files.os, "fsync", fsync)
    files.publish_folder(temporary, final, tmp_path / "trash")
    assert {inode for inode, named in forced if not named} == inodes
    assert forced[-1] == (final.parent.stat().st_ino, True)
    assert (final / "recording" / "steps.parquet").read_text() == "x"


def test_a_disk_that_refuses_is_told(tmp_path, monkeypatch):
    temporary = tmp_path / "work"
    temporary.mkdir()
    (temporary / "summary.json").write_text("x")

    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        files.publish_folder(temporary, tmp_path / "a", tmp_path / "trash")
    assert not (tmp_path / "a").exists()
