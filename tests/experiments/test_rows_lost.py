"""A run whose rows the disk did not take is no result, even where all that came after them found room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from stepscope.errors import MeasurementError
from stepscope.experiments.single import plan_single, run_single
from stepscope.instrumentation.probe import segments
from stepscope.instrumentation.recording import Recording

FIELDS = {"device": "sim", "workload.settings": {"num_reqs": 2, "prompt_len": 4}, "measure.steps": 4}
SIZES = ["max_num_seqs=2", "max_num_batched_tokens=16", "max_model_len=64", "block_size=4"]


def test_a_run_that_lost_rows_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a disk that takes the head of the segment file and short records, but no rows
    def full(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(descriptor, data, offset)

    written = os.pwrite
    monkeypatch.setattr(segments.os, "pwrite", full)
    # WHEN something is run THEN it has failed, and not with an answer of nothing
    with pytest.raises(MeasurementError, match=r"run/recording: [\d,]+ rows of the recording were lost"):
        run_single(plan_single(None, FIELDS, SIZES), tmp_path / "run", lambda done, total: None)
    # and what there is can be read, and says so
    meta = Recording.load(tmp_path / "run" / "recording").meta
    assert "rows were dropped while recording" in (meta.reason("steps", "complete") or "")
    assert not (tmp_path / "run" / "summary.json").exists()
