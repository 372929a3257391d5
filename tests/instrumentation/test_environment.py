"""The fingerprint: registered keys, no names of users, hosts or folders."""

import getpass
import os
import platform

import pytest
from stepscope.instrumentation.environment import fingerprint, memory_limit_bytes
from stepscope.instrumentation.recording import RecordingMeta
from stepscope.instrumentation.recording.registry import ENVIRONMENT_KEYS, check_environment


def test_keys_are_registered_and_of_their_type():
    found = fingerprint({"gpu_name": "H200", "nvml": "ok"}, pinned=False, pinned_reason="no GPU")
    check_environment(found)
    assert set(found) <= set(ENVIRONMENT_KEYS)
    assert (found["gpu_name"], found["pin_memory"], found["pin_memory_reason"]) == ("H200", False, "no GPU")
    assert found["python"] == platform.python_version()
    assert found["numpy"]
    assert found["cpu_count"] == os.cpu_count()
    RecordingMeta(source="lab", device="cpu", environment=found)


def test_what_is_not_known_is_null():
    found = fingerprint()
    assert found["pin_memory"] is None
    assert found["pin_memory_reason"] is None


def test_no_names_of_people_or_places():
    text = " ".join(str(value) for value in fingerprint().values())
    assert os.getcwd() not in text
    assert os.path.expanduser("~") not in text
    assert platform.node() not in text.split()
    assert getpass.getuser() not in text.split()


@pytest.mark.parametrize(
    ("content", "limit"), [("1073741824\n", 2**30), ("max\n", None), ("9223372036854771712\n", None), ("", None)]
)
def test_memory_limit(tmp_path, content, limit):
    path = tmp_path / "memory.max"
    path.write_text(content)
    assert memory_limit_bytes((tmp_path / "absent", path)) == limit


def test_no_cgroup(tmp_path):
    assert memory_limit_bytes((tmp_path / "absent",)) is None
