"""The command line of nsys, what must not be asked of it, and what it must leave behind (case 28)."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.instrumentation.launch import (
    Ended,
    NsightOptions,
    nsight_command,
    reports_of,
    run_gently,
    worker_environment,
)

NSYS, OUT = Path("/opt/nsys"), Path("out/capture")
DONE = Ended(0)


def built(**options):
    return nsight_command(NSYS, ["python", "-m", "serve", "--x=1"], OUT, NsightOptions(**options))


class TestCommand:
    def test_workers_are_traced_and_waited_for(self):
        command = built()
        assert command[:2] == ["/opt/nsys", "profile"]
        assert command[-4:] == ["python", "-m", "serve", "--x=1"]
        assert {"--trace-fork-before-exec=true", "--wait=all", "--trace=cuda,nvtx"} < set(command)
        assert "--cuda-graph-trace=graph" in command
        assert "--output=out/capture" in command
        assert all(word.startswith("--") for word in command[2:-4])

    def test_graphs_node_by_node(self):
        assert "--cuda-graph-trace=node" in built(graph_trace="node")

    def test_one_window_ends_the_collection(self):
        command = built(capture_range="cudaProfilerApi")
        assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop"} < set(command)

    def test_several_windows_repeat_as_often_as_they_come(self):
        command = built(capture_range="cudaProfilerApi", windows=3)
        assert "--capture-range-end=repeat:3" in command

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"capture_range": "cudaProfilerApi", "windows": 3, "range_end": "stop"}, "take repeat"),
            ({"windows": 3}, "belong to --capture-range"),
            ({"range_end": "repeat"}, "belong to --capture-range"),
            ({"windows": 0}, "--windows 0: give 1 to 1000"),
        ],
    )
    def test_what_would_end_in_an_empty_report_is_refused(self, options, message):
        with pytest.raises(UsageError, match=message):
            built(**options)

    def test_nothing_to_run_is_refused(self):
        with pytest.raises(UsageError, match="no command"):
            nsight_command(NSYS, [], OUT, NsightOptions())

    def test_workers_are_spawned_unless_the_user_says_else(self):
        name = "VLLM_WORKER_MULTIPROCESSING_METHOD"
        assert worker_environment({"A": "b"}) == {"A": "b", name: "spawn"}
        assert worker_environment({name: "fork"}) == {name: "fork"}


class TestReports:
    def found(self, tmp_path, *names, windows=1, ended=DONE, can_finish=False):
        for name in names:
            (tmp_path / name).write_bytes(b"")
        reports = reports_of(tmp_path / "capture", windows=windows, ended=ended, can_finish=can_finish)
        return [report.name for report in reports]

    def test_one_report(self, tmp_path):
        names = ("capture.nsys-rep", "capture.qdstrm", "capture2.nsys-rep")
        assert self.found(tmp_path, *names) == ["capture.nsys-rep"]

    def test_a_report_a_window_in_order(self, tmp_path):
        names = [f"capture.{number}.nsys-rep" for number in (10, 2, 1)]
        assert self.found(tmp_path, *names, windows=3) == names[::-1]

    def test_fewer_reports_than_windows(self, tmp_path):
        with pytest.raises(MeasurementError, match="2 of 3 windows"):
            self.found(tmp_path, "capture.1.nsys-rep", "capture.2.nsys-rep", windows=3)

    def test_a_lone_stream_is_incomplete(self, tmp_path):
        with pytest.raises(MeasurementError, match=r"capture\.qdstrm: incomplete capture"):
            self.found(tmp_path, "capture.qdstrm")

    def test_a_lone_stream_is_given_to_an_importer_where_there_is_one(self, tmp_path):
        assert self.found(tmp_path, "capture.qdstrm", can_finish=True) == ["capture.qdstrm"]

    def test_nothing_at_all(self, tmp_path):
        with pytest.raises(MeasurementError, match="exit code 127"):
            self.found(tmp_path, ended=Ended(127))


WORKER = """
import signal, sys
signal.alarm(30)
signal.signal(signal.SIGINT, lambda *_: (open({done!r}, "w").write("worker"), sys.exit(0)))
open({ready!r}, "w").close()
signal.pause()
"""
PROFILER = """#!{python}
import signal, subprocess, sys
signal.alarm(30)
signal.signal(signal.SIGINT, lambda *_: (open({killed!r}, "w").close(), sys.exit(9)))
code = subprocess.call([{python!r}, "-c", {worker!r}])
open({report!r}, "w").write("report")
sys.exit(code)
"""


class TestRunning:
    def test_the_exit_code_is_the_programs(self):
        assert run_gently([sys.executable, "-c", "raise SystemExit(7)"], os.environ) == Ended(7)

    def test_a_program_that_is_not_there(self, tmp_path):
        with pytest.raises(UsageError, match="cannot be run"):
            run_gently([str(tmp_path / "nsys")], os.environ)

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
    @pytest.mark.usefixtures("ctrl_c")
    def test_ctrl_c_ends_the_workers_first_and_lets_the_profiler_write_its_report(self, tmp_path):
        # GIVEN a profiler whose worker says through a pipe that it works; both end where no Ctrl-C comes
        paths = {name: str(tmp_path / name) for name in ("ready", "done", "report", "killed")}
        os.mkfifo(paths["ready"])
        worker = WORKER.format(**paths)
        profiler = tmp_path / "nsys"
        profiler.write_text(PROFILER.format(python=sys.executable, worker=worker, **paths))
        profiler.chmod(0o755)

        def interrupt():
            Path(paths["ready"]).read_bytes()
            os.kill(os.getpid(), signal.SIGINT)

        # WHEN the user presses Ctrl-C
        threading.Thread(target=interrupt, daemon=True).start()
        ended = run_gently([str(profiler)], os.environ, grace_s=30)
        # THEN the worker ended by itself, and the profiler behind it, unharmed
        assert ended == Ended(0, interrupted=True)
        assert Path(paths["done"]).read_text() == "worker"
        assert Path(paths["report"]).read_text() == "report"
        assert not Path(paths["killed"]).exists()
