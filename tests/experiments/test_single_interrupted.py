"""`perf run` that Ctrl-C ends early: what was measured is kept, and its summary is no result of a whole run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from stepscope.experiments.single import plan_single, run_single

FIELDS = {"device": "sim", "workload.settings": {"num_reqs": 2, "prompt_len": 4}, "measure.steps": 20}
SIZES = ["max_num_seqs=2", "max_num_batched_tokens=16", "max_model_len=64", "block_size=4"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_its_summary_says_that_it_was_interrupted(tmp_path: Path, interrupted: bool) -> None:
    # GIVEN a run of 20 steps WHEN Ctrl-C comes behind the third
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if interrupted and len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

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
    assert (meta["configuration"]["outcome"]["stopped"] == "interrupted") == interrupted
