"""`perf report --format perfetto`."""

import json


def test_a_capture_and_its_recording_give_the_same_trace(perf, kineto, made, tmp_path):
    path = kineto([made.call(0, 2, "cudaLaunchKernel", 1), made.kernel(5, 10, 1)])
    direct = perf("report", path, "--format", "perfetto")
    assert (direct.code, direct.err) == (0, "")
    assert {event["name"] for event in json.loads(direct.out)["traceEvents"]} >= {"gemm", "cudaLaunchKernel", "launch"}
    perf("import", path, "-o", tmp_path / "r")
    target = tmp_path / "trace.json"
    assert perf("report", tmp_path / "r", "--format", "perfetto", "-o", target).out == f"{target}\n"
    assert target.read_text() == direct.out


def test_a_folder_without_a_recording_is_refused(perf, tmp_path):
    ended = perf("report", tmp_path, "--format", "perfetto")
    assert ended.code == 2
    assert "holds no recording" in ended.err
