"""One timing job a GPU, across processes."""

import os
import subprocess
import sys

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.launchers.gpu_locks import GpuLocks
from stepscope.instrumentation.visible import Gpu

FIRST, SECOND = Gpu("0", "GPU-1"), Gpu("1", "GPU-2")


def test_a_gpu_that_another_holds_is_refused_and_none_of_the_others_is_kept(tmp_path):
    holder, late, third = GpuLocks(tmp_path), GpuLocks(tmp_path), GpuLocks(tmp_path)
    holder.take([SECOND])
    with pytest.raises(UsageError, match=r"GPU-2: process \d+ measures on this GPU; wait for it, or leave"):
        late.take([FIRST, SECOND])
    third.take([FIRST])
    holder.release()
    late.take([SECOND])
    late.release()
    third.release()


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from stepscope.experiments.launchers.gpu_locks import GpuLocks\n"
        "from stepscope.instrumentation.visible import Gpu\n"
        "locks = GpuLocks(Path(sys.argv[1])); locks.take([Gpu('0', 'GPU-1')]); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    locks = GpuLocks(tmp_path)
    locks.take([FIRST])
    locks.release()


def test_a_lock_that_another_user_made(tmp_path, monkeypatch):
    """GIVEN a file that may be read and not written WHEN its GPU is taken THEN the lock holds all the same."""
    (tmp_path / "stepscope-GPU-1.lock").write_text("17\n")
    opened = os.open

    def guarded(path, flags, *mode):
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *mode)

    monkeypatch.setattr("stepscope.experiments.launchers.gpu_locks.os.open", guarded)
    holder, late = GpuLocks(tmp_path), GpuLocks(tmp_path)
    holder.take([FIRST])
    with pytest.raises(UsageError, match="GPU-1: process 17 measures"):
        late.take([FIRST])
    holder.release()


def test_a_link_in_the_place_of_a_lock_is_refused_and_its_file_is_left_alone(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("all of it\n")
    (tmp_path / "stepscope-GPU-1.lock").symlink_to(precious)
    with pytest.raises(UsageError, match=r"stepscope-GPU-1\.lock: cannot be locked \(.*\); remove what is there"):
        GpuLocks(tmp_path).take([FIRST])
    assert precious.read_text() == "all of it\n"
