"""A gate that a job's end terminates leaves nothing behind."""

from __future__ import annotations

import os
import signal
import tempfile

import pytest
from stepscope.experiments.gate.arms import parse_arm
from stepscope.experiments.gate.procedure import benched
from stepscope.experiments.gate.request import GateRequest

SPEC = (
    "workload: {generator: {num_requests: 4, prompt: {kind: fixed, value: 7}, output: {kind: fixed, value: 4}}}\n"
    "runner: {max_num_seqs: 4, max_num_batched_tokens: 64}\ndevice: sim\n"
)


def test_sigterm_ends_a_gate_as_ctrl_c_does(tmp_path, monkeypatch):
    """GIVEN a gate under way, WHEN the job is cancelled, THEN its folder goes and SIGTERM is as it was before."""
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    before = signal.getsignal(signal.SIGTERM)
    arms = parse_arm("base", []), parse_arm("head", ["set:commit_order=last"])

    seen = []

    def cancelled():
        with benched(GateRequest(arms, tmp_path / "spec.yaml")) as bench:
            seen.append(bench.scratch.is_dir())
            if signal.getsignal(signal.SIGTERM) is not before:  # else it would end the tests
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        cancelled()

    assert seen == [True]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before
