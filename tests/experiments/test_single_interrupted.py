"""`perf run` that is ended early: what was measured is kept, and its summary is no result of a whole run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from stepscope.experiments import between_steps
from stepscope.experiments.single import plan_single, run_single
from stepscope.instrumentation.probe.ledger import Row
from stepscope.instrumentation.recording import RecordingWriter

FIELDS = {"device": "sim", "workload.settings": {"num_reqs": 2, "prompt_len": 4}, "measure.steps": 20}
SIZES = ["max_num_seqs=2", "max_num_batched_tokens=16", "max_model_len=64", "block_size=4"]


@pytest.mark.parametrize("interrupted", [signal.SIGINT, signal.SIGTERM, None])
def test_its_summary_says_that_it_was_interrupted(tmp_path: Path, interrupted: signal.Signals | None) -> None:
    # GIVEN a run of 20 steps WHEN Ctrl-C, or the end of a job, comes behind the third
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if interrupted and len(seen) == 3:
            os.kill(os.getpid(), interrupted)

    ended = run_single(plan_single(None, FIELDS, SIZES), tmp_path / "run", progress)
    # THEN the summary says so, and the recording does
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    meta = json.loads((tmp_path / "run" / "recording" / "recording.json").read_text())
    if interrupted:
        assert (ended.exit_code, summary["status"]) == (130, "interrupted")
        assert summary["reason"] == f"interrupted after {len(seen)} steps"
        assert len(seen) < 20
    else:
        assert (ended.exit_code, summary["status"], "reason" in summary) == (0, "ok", False)
    assert (meta["configuration"]["outcome"]["stopped"] == "interrupted") == bool(interrupted)


@pytest.mark.parametrize(("seconds", "parts"), [(0, 20), (1000, 1)])
def test_slow_steps_are_handed_over_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, parts: int
) -> None:
    """A kill loses what was not handed over: of steps that take a second each, 512 would be nine minutes."""
    taken = []
    monkeypatch.setattr(between_steps, "ROWS_EVERY_NS", seconds * 10**9)
    write = RecordingWriter.write

    def written(writer: RecordingWriter, rows: Mapping[str, Sequence[Row]]) -> None:
        taken.append(len(rows.get("steps", ())))
        write(writer, rows)

    monkeypatch.setattr(RecordingWriter, "write", written)
    run_single(plan_single(None, FIELDS, SIZES), tmp_path / "run", lambda done, total: None)
    assert len([steps for steps in taken if steps]) >= parts
    assert bool(seconds) == (max(taken) > 1)
