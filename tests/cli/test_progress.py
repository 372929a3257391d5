"""Progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import json
import sys

import pytest
from stepscope.cli.progress import RunProgress
from stepscope.cli.sweep_progress import BarProgress, Counts, JsonProgress, LineProgress, watch_sweep
from stepscope.errors import UsageError
from stepscope.experiments.observer import SweepObserver
from stepscope.experiments.plan import Point
from stepscope.experiments.spec import PointSpec
from stepscope.experiments.store import PointResult

POINT = Point("0123456789", "steady_first", {}, PointSpec())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


FAILED = PointResult(POINT, "failed", "RuntimeError: broke", 0.5, "error")
KILLED = PointResult(POINT, "failed", "took longer than 3 s (--timeout)", 3.0, "timeout")
SKIPPED = PointResult(POINT, "skipped", "dominated: at least as large as small", kind="dominated")


class Clock:
    """Every reading is 30 s later."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 30
        return self.now_s


def sweep_through(observer: SweepObserver) -> None:
    observer.started(13, 9)
    observer.point_started(POINT)
    observer.point_finished(PointResult(POINT, "ok", wall_s=1.25))
    observer.point_finished(FAILED)
    observer.point_finished(SKIPPED)
    observer.point_finished(KILLED)
    observer.ended()


def test_plain_lines_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(watch_sweep(), LineProgress)
    sweep_through(LineProgress(Counts(Clock())))
    assert capsys.readouterr().err.splitlines() == [
        "13 points, 9 measured before",
        "[10/13] steady_first  ok  1.2 s  (2 min left)",
        "[11/13] steady_first  FAILED: RuntimeError: broke  0.5 s  (60 s left)",
        "[12/13] steady_first  skipped: dominated: at least as large as small  (45 s left)",
        "[13/13] steady_first  FAILED (timeout): took longer than 3 s (--timeout)  3.0 s",
    ]


def test_a_line_of_json_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(watch_sweep("json"), JsonProgress)
    sweep_through(JsonProgress(Counts(Clock())))
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["started", "point_started", *["point_finished"] * 4, "ended"]
    assert events[0] == {"event": "started", "done": 9, "total": 13, "failed": 0, "skipped": 0, "left_s": None}
    assert events[3] == {
        "event": "point_finished", "point": POINT.id, "launch": 0, "name": "steady_first", "status": "failed",
        "kind": "error", "reason": "RuntimeError: broke", "wall_s": 0.5, "done": 11, "total": 13, "failed": 1,
        "skipped": 0, "left_s": 60.0,
    }  # fmt: skip
    assert (events[-1]["done"], events[-1]["failed"], events[-1]["skipped"]) == (13, 2, 1)


def test_an_unknown_way_of_progress_is_refused() -> None:
    with pytest.raises(UsageError, match="--progress: xml is unknown; one of auto, bar, plain, json"):
        watch_sweep("xml")


def test_a_bar_on_a_terminal_with_failures_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    observer = watch_sweep()
    assert isinstance(observer, BarProgress)
    sweep_through(observer)
    told = " ".join(terminal.getvalue().split())
    assert "steady_first: FAILED: RuntimeError: broke" in told
    assert "steady_first: FAILED (timeout): took longer" in told
    assert "13/13" in told
    assert "2 failed" in told


def test_a_run_tells_of_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress() as progress:
        for done in (0, 1, 1, 2, 7, 20):
            progress(done, 20)
    assert capsys.readouterr().err.splitlines() == [
        "2 of 20 requests answered",
        "7 of 20 requests answered",
        "20 of 20 requests answered",
    ]


def test_a_run_draws_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with RunProgress() as progress:
        progress(3, 20)
        progress(20, 20)
    assert "20/20" in terminal.getvalue()
