"""Progress: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest
from stepscope.cli.progress import BarProgress, LineProgress, RunProgress, watch_sweep
from stepscope.experiments.plan import Point
from stepscope.experiments.spec import PointSpec
from stepscope.experiments.store import PointResult

POINT = Point("0123456789", "steady_first", {}, PointSpec())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def sweep_through(observer: BarProgress | LineProgress) -> None:
    observer.started(12, 9)
    observer.point_started(POINT)
    observer.point_finished(PointResult(POINT, "ok", wall_s=1.25))
    observer.point_finished(PointResult(POINT, "failed", "RuntimeError: broke", 0.5))
    observer.ended()


def test_plain_lines_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    observer = watch_sweep()
    assert isinstance(observer, LineProgress)
    sweep_through(observer)
    assert capsys.readouterr().err.splitlines() == [
        "12 points, 9 measured before",
        "[10/12] steady_first  ok  1.2 s",
        "[11/12] steady_first  FAILED: RuntimeError: broke  0.5 s",
    ]


def test_a_bar_on_a_terminal_with_failures_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    observer = watch_sweep()
    assert isinstance(observer, BarProgress)
    sweep_through(observer)
    assert "steady_first: FAILED: RuntimeError: broke" in terminal.getvalue()
    assert "11/12" in terminal.getvalue()


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
