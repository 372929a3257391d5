"""`perf import` and `perf report` of captures: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "h200" / "decode"


def test_an_export_becomes_a_recording(perf, export, tmp_path):
    export.range(0, 100_000, "forward")
    export.call(5_000, 9_000, "cudaLaunchKernel_v7000", correlation=7)
    export.kernel(20_000, 60_000, correlation=7)
    folder = tmp_path / "r"
    ended = perf("import", export.path, "-o", folder)
    assert (ended.code, ended.err) == (0, "")
    assert "Device 0 idled 0 % of 40.0 µs." in ended.out
    assert ended.out.startswith(f"recording: {folder}\na page of it: perf report {folder}\n\n")
    # and the recording has the report of the capture
    told = json.loads(perf("report", folder, "--format", "json").out)
    assert (told["kind"], told["content"]["devices"][0]["busy_ns"]) == ("capture", 40_000)
    direct = json.loads(perf("report", export.path, "--format", "json").out)
    assert direct["content"] == told["content"]


def test_one_device_of_a_capture_is_reported_alone(perf, export, tmp_path):
    for device in (0, 1):
        export.call(5_000, 9_000, "cudaLaunchKernel_v7000", correlation=7 + device)
        export.kernel(20_000, 60_000 + device, correlation=7 + device, device=device)
    folder = tmp_path / "r"
    perf("import", export.path, "-o", folder)
    for path in (export.path, folder):
        told = json.loads(perf("report", path, "--device", "1", "--format", "json").out)
        assert told["name"] == f"{path.name}, device 1"
        assert [own["busy_ns"] for own in told["content"]["devices"]] == [40_001]
    # AND what has no such parts says so
    for arguments, told in (
        ((folder, "--device", "7"), "--device 7: this capture has no work on it; it has device 0, 1"),
        ((folder, "--rank", "1", "--format", "perfetto"), "--rank 1: a trace for Perfetto has a track for each"),
        ((EXAMPLE, "--device", "0"), f"{EXAMPLE}: --device 0: chooses in a capture of another profiler"),
    ):
        ended = perf("report", *arguments)
        assert (ended.code, told in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err


def test_a_page_stands_beside_the_capture(perf, kineto, made):
    path = kineto([made.kernel(0, 10)], "step.json.gz", packed=True)
    ended = perf("report", path)
    assert ended.code == 0
    assert ended.out.strip() == f"{path}.html"
    assert "<html" in (path.parent / "step.json.gz.html").read_text()


def test_the_folder_is_named_after_the_file(perf, kineto, made, tmp_path, monkeypatch):
    path = kineto([made.kernel(0, 10)], "worker0.pt.trace.json")
    monkeypatch.chdir(tmp_path)
    assert "recording: worker0.recording\n" in perf("import", path).out
    assert (tmp_path / "worker0.recording" / "recording.json").exists()


def test_ranks_are_imported_together(perf, kineto, made, tmp_path):
    paths = [
        kineto([made.kernel(0, 10 + n)], f"{n}.json", distributedInfo={"rank": n, "world_size": 2}) for n in (0, 1)
    ]  # fmt: skip
    ended = perf("import", *paths, "-o", tmp_path / "r")
    assert "Device 0 of rank 0 idled 0 % of 10.0 µs. Device 0 of rank 1 idled 0 % of 11.0 µs." in ended.out


def test_calls_without_kernels_are_a_failed_measurement(perf, export, tmp_path):
    export.call(0, 10, "cudaLaunchKernel_v7000", correlation=1)
    ended = perf("import", export.path, "-o", tmp_path / "r")
    assert ended.code == 3
    assert "no GPU kernels" in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_ranges_alone_are_reported_without_figures_of_a_gpu(perf, export, tmp_path):
    export.range(0, 100, "reader")
    ended = perf("import", export.path, "-o", tmp_path / "r")
    assert ended.code == 0
    assert "Host ranges only: nothing can be said of a device, because the capture has no kernels." in ended.out


def test_a_cut_trace_is_salvaged_on_request_only(perf, made, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [made.kernel(0, 10), made.kernel(20, 10)]})[:-30])
    refused = perf("import", path, "-o", tmp_path / "r")
    assert (refused.code, refused.out) == (2, "")
    assert "at byte" in refused.err
    salvaged = perf("import", path, "-o", tmp_path / "r", "--salvage")
    assert salvaged.code == 0
    assert "the file is truncated: only the events before its cut are here" in salvaged.out


def test_a_map_of_phases(perf, kineto, made, tmp_path):
    path = kineto([
        made.event("user_annotation", "tick 1", 0, 50), made.event("user_annotation", "net", 10, 30),
        made.call(12, 5, "cudaLaunchKernel", 1), made.kernel(20, 7, 1),
    ])  # fmt: skip
    mine = tmp_path / "mine.yaml"
    mine.write_text('phases: {forward: ["re:n.t"]}\nstep: "re:tick [0-9]+"\n')
    assert "ranges:mine" in perf("import", path, "-o", tmp_path / "r", "--map", mine).out
    for content, message in (
        ("phases: {warm: [a]}", "'warm' is no phase"), ("fases: {}", "unknown field"),
        ("phases: {forward: ['re:(']}", "no regular expression"), ("phases: [", "not valid YAML"), ("- 1", "Expected"),
    ):  # fmt: skip
        mine.write_text(content)
        ended = perf("import", path, "-o", tmp_path / "r", "--map", mine)
        assert ended.code == 2
        assert message in ended.err


def test_other_peoples_folders_are_left_alone(perf, kineto, made, tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    ended = perf("import", kineto([made.kernel(0, 10)]), "-o", folder)
    assert ended.code == 2
    assert "is not empty and holds no recording" in ended.err
    assert [entry.name for entry in folder.iterdir()] == ["letter.txt"]


def test_what_is_no_capture_is_refused(perf, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    for verb in ("import", "report"):
        ended = perf(verb, path)
        assert ended.code == 2
        assert "Traceback" not in ended.err
    assert perf("import", tmp_path / "nothing.sqlite").code == 2


def test_a_recording_is_replaced_by_request_only(perf, kineto, made, tmp_path):
    path, folder = kineto([made.kernel(0, 10)]), tmp_path / "r"
    assert perf("import", path, "-o", folder).code == 0
    refused = perf("import", path, "-o", folder)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "holds a recording already" in refused.err
    assert "--force" in refused.err
    assert perf("import", path, "-o", folder, "--force").code == 0
