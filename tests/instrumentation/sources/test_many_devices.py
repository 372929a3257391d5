"""Files of whole clusters are read rank by rank; a process with more devices than a host can have is damage."""

import re

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import UsageError
from stepscope.instrumentation.sources import read_capture
from stepscope.instrumentation.sources.hosts import MOST_DEVICES

RANKS = 300


def figures(path):
    capture = read_capture(path)
    return capture_figures(capture.tables, capture.meta)


def of_rank(made, rank, label, device):
    """One call and its kernel, both with the id that every other rank has too."""
    call = made.call(rank, 1, "cudaLaunchKernel", 7, pid=label % rank)
    return [call, {**made.kernel(rank + 10, 2 + rank, 7, device=device), "pid": label % device}]


def test_a_merged_trace_of_some_hundred_ranks_is_taken_apart(kineto, made):
    events = [event for rank in range(RANKS) for event in of_rank(made, rank, f"[TP{rank:04d}] %d", rank % 8)]
    found = figures(kineto(events))
    assert [(own.rank, own.device, own.busy_ns) for own in found.devices] == [
        (rank, str(rank % 8), 1_000 * (2 + rank)) for rank in range(RANKS)
    ]
    assert {(own.what, own.n, own.p50_ns) for own in found.queue} == {("kernel", 1, 10_000)}
    assert found.facts["merged_processes"] == RANKS


def test_more_devices_than_a_host_has_are_damage(export, kineto, made, tmp_path):
    with export._connection as connection:
        connection.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER)"
        )
        rows = [(n, n + 1, n, made.global_pid(41)) for n in range(MOST_DEVICES + 1)]
        connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", rows)
    why = f"capture.sqlite: process 41 works on {MOST_DEVICES + 1} devices and no host has so many: deviceId is damaged"
    with pytest.raises(UsageError, match=re.escape(why)):
        read_capture(export.path)
    trace = kineto([made.kernel(n + 1, 1, device=n) for n in range(MOST_DEVICES + 1)])
    with pytest.raises(UsageError, match="no host has so many: the device of its events is damaged"):
        read_capture(trace)
    with export._connection as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE deviceId = 0")
    assert len(read_capture(export.path).tables["spans"]) == MOST_DEVICES
