"""`perf capture` with an nsys of our own making: it runs the command, and its report is an export that we prepared."""

import json
import os
import sys

import pytest

NSYS = """#!{python}
import os, shutil, subprocess, sys
arguments = sys.argv[1:]
options = {{word.partition("=")[0]: word.partition("=")[2] for word in arguments if word.startswith("--")}}
if arguments[0] == "export":
    shutil.copy(arguments[-1], options["--output"])
    sys.exit(0)
command = arguments[1:]
while command[0].startswith("--"):
    command.pop(0)
with open({told!r}, "a") as file:
    file.write("\\n".join(arguments) + "\\n" + os.environ.get("VLLM_WORKER_MULTIPROCESSING_METHOD", ""))
code = subprocess.call(command)
for ending in {endings!r}:
    shutil.copy({export!r}, options["--output"] + ending)
sys.exit(code)
"""
NOTHING = [sys.executable, "-c", "pass"]


@pytest.fixture
def nsys(tmp_path, monkeypatch, export):
    """`nsys(endings)` puts one on the PATH that leaves such files behind; the arguments it got are in the file."""

    def make(endings=(".nsys-rep",)):
        told = tmp_path / "told.txt"
        program = tmp_path / "bin" / "nsys"
        program.parent.mkdir(exist_ok=True)
        text = NSYS.format(python=sys.executable, told=str(told), endings=list(endings), export=str(export.path))
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return told

    return make


def a_step(export, pid=1001):
    export.range(0, 100_000, "forward", pid=pid)
    export.call(5_000, 9_000, "cudaLaunchKernel_v7000", correlation=7, pid=pid)
    export.kernel(20_000, 60_000, correlation=7, pid=pid)


def test_any_command_is_captured_and_imported(perf, nsys, export, tmp_path):
    a_step(export)
    told, out = nsys(), tmp_path / "out"
    ended = perf("capture", "--graph-trace", "node", "--out", out, "--", *NOTHING)
    assert (ended.code, ended.err) == (0, "")
    assert "Device 0: idle 0 % of 40.0 µs." in ended.out
    assert f"recording: {out / 'capture.recording'}" in ended.out
    assert (out / "capture.html").exists()
    assert json.loads((out / "capture.recording" / "recording.json").read_text())["source"] == "nsys"
    lines = told.read_text().splitlines()
    assert {"--cuda-graph-trace=node", "--trace-fork-before-exec=true", f"--output={out / 'capture'}"} < set(lines)
    assert lines[-4:-1] == NOTHING
    assert lines[-1] == "spawn"


def test_the_options_of_the_command_are_its_own(perf, nsys, export, tmp_path):
    a_step(export)
    told = nsys()
    command = [sys.executable, "-c", "import sys; sys.exit(sys.argv[1:] != ['--out', 'x', '--steps'])", "--out", "x"]
    assert perf("capture", "--out", tmp_path / "out", "--", *command, "--steps").code == 0
    assert told.read_text().splitlines()[-2] == "--steps"


def test_several_windows_give_a_report_each(perf, nsys, export, tmp_path):
    a_step(export)
    told, out = nsys([".1.nsys-rep", ".2.nsys-rep"]), tmp_path / "out"
    window = ("--capture-range", "cudaProfilerApi", "--windows")
    ended = perf("capture", *window, "2", "--out", out, "--", *NOTHING)
    assert ended.code == 0
    assert "--capture-range-end=repeat:2" in told.read_text()
    assert (out / "capture.1.recording" / "recording.json").exists()
    assert (out / "capture.2.html").exists()
    # and a window that never came is a failed measurement
    few = perf("capture", *window, "3", "--out", out, "--", *NOTHING)
    assert (few.code, "2 of 3 windows" in few.err) == (3, True)


def test_windows_without_repeat_are_refused_before_anything_runs(perf, nsys, tmp_path):
    told = nsys()
    options = ("--capture-range", "cudaProfilerApi", "--windows", "3", "--range-end", "stop")
    ended = perf("capture", *options, "--out", tmp_path / "out", "--", *NOTHING)
    assert (ended.code, "take repeat" in ended.err) == (2, True)
    assert not told.exists()


def test_a_process_without_kernels_is_named(perf, nsys, export, tmp_path):
    """Rank 0 was traced, of rank 1 only the calls."""
    a_step(export)
    export.call(5_000, 9_000, "cudaLaunchKernel_v7000", correlation=7, pid=1002)
    nsys()
    ended = perf("capture", "--out", tmp_path / "out", "--", *NOTHING)
    assert (ended.code, ended.out) == (3, "")
    assert "process 1002 has no GPU kernels" in ended.err
    assert ended.err.count("\n") == 1


def test_fewer_processes_with_kernels_than_workers(perf, nsys, export, tmp_path):
    a_step(export)
    nsys()
    ended = perf("capture", "--workers", "2", "--out", tmp_path / "out", "--", *NOTHING)
    assert ended.code == 3
    assert "1 of 2 processes have GPU kernels in the capture (pid 1001)" in ended.err


def test_helpers_that_launch_nothing_need_no_kernels(perf, nsys, export, tmp_path):
    a_step(export)
    export.call(0, 10, "cuInit", pid=1003)
    nsys()
    assert perf("capture", "--out", tmp_path / "out", "--", *NOTHING).code == 0


def test_a_lone_stream_is_incomplete(perf, nsys, export, tmp_path, monkeypatch):
    a_step(export)
    nsys([".qdstrm"])
    monkeypatch.setattr("stepscope.instrumentation.sources.nsys.tools._ROOTS", ())
    ended = perf("capture", "--out", tmp_path / "out", "--", *NOTHING)
    assert (ended.code, "incomplete capture" in ended.err) == (3, True)


def test_a_lone_stream_is_finished_by_the_importer_of_the_same_installation(perf, nsys, export, tmp_path):
    # GIVEN an installation as Nsight Compute carries it: the importer lies in a folder beside that of nsys
    a_step(export)
    nsys([".qdstrm"])
    importer = tmp_path / "linux-desktop-x64" / "QdstrmImporter"
    importer.parent.mkdir()
    importer.write_text('#!/bin/sh\ncp "$2" "$4"\n')
    importer.chmod(0o755)
    ended = perf("capture", "--out", tmp_path / "out", "--", *NOTHING)
    assert (ended.code, ended.err) == (0, "")
    assert "idle 0 % of 40.0" in ended.out


def test_a_command_that_fails_is_told_with_what_was_captured(perf, nsys, export, tmp_path):
    a_step(export)
    nsys()
    ended = perf("capture", "--out", tmp_path / "out", "--", sys.executable, "-c", "raise SystemExit(4)")
    assert ended.code == 0
    assert "the command ended with exit code 4" in ended.out
    # and without a report there is nothing to import
    nsys([])
    failed = perf("capture", "--out", tmp_path / "other", "--", sys.executable, "-c", "raise SystemExit(4)")
    assert (failed.code, "exit code 4" in failed.err) == (3, True)


def test_without_an_nsys(perf, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.experiments.capturing.find_tools", lambda: __import__("types").SimpleNamespace(
        nsys=None, importer=None))
    ended = perf("capture", "--out", tmp_path / "out", "--", *NOTHING)
    assert (ended.code, "--profiler torch" in ended.err) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("profiler", ["nsys", "torch"])
def test_a_run_that_cannot_be_leaves_no_folder(perf, tmp_path, profiler):
    ended = perf("capture", "--profiler", profiler, "--regime", "stedy", "--out", tmp_path / "out")
    assert (ended.code, "regime 'stedy' is unknown" in ended.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_command_takes_no_options_of_our_run(perf, tmp_path):
    for options in (("--steps", "3"), ("--profiler", "torch")):
        ended = perf("capture", *options, "--out", tmp_path / "out", "--", *NOTHING)
        assert (ended.code, "no options of our run" in ended.err) == (2, True)


def test_our_own_run_under_nsys(perf, nsys, export, tmp_path):
    """nsys starts `perf run` as a program of its own; its recording (modelled here) lies beside the capture."""
    a_step(export)
    told, out = nsys(), tmp_path / "out"
    ended = perf("capture", "--regime", "steady", "--device", "sim", "--steps", "2", "--out", out)
    assert ended.code == 0
    words = told.read_text().splitlines()
    begin = words.index("run")
    assert words[begin - 2 : begin + 1] == ["-m", "stepscope", "run"]
    assert (out / "run" / "recording" / "recording.json").exists()
    assert "cannot be compared with the capture: one side is modelled" in ended.out
    # AND its run is not overwritten by the next capture
    again = perf("capture", "--regime", "steady", "--device", "sim", "--steps", "2", "--out", out)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "holds a run of an earlier capture; choose another --out" in again.err


def test_our_own_run_under_torch_profiler(perf, tmp_path):
    """On the CPU: phases by the probe's ranges on both sides."""
    out = tmp_path / "out"
    options = ("--regime", "steady", "--device", "cpu", "--steps", "3")
    ended = perf("capture", "--profiler", "torch", *options, "--out", out)
    assert ended.code == 0
    assert "marked by stepscope" in ended.out
    assert "Two views of one run" in ended.out
    told = json.loads(perf("diff", out / "run", out / "capture.recording", "--format", "json").out)["content"]
    assert told["comparison"]["steps"]["unmatched_a"] == []
    phases = {own["name"] for own in told["comparison"]["figures"] if own["figure"] == "host_ns" and own["n"]}
    assert phases == {"preprocess", "forward", "sample"}
