"""A path with a user's name, a variable and a secret in every text of two results: in no output, and not on stderr."""

from __future__ import annotations

import json

from stepscope.cli.gate_outputs import parse_outputs
from stepscope.reports.gate.formats import FORMATS

SECRET = "hf_hunter2-4f9a"
DIRTY = f"/home/qualice/engine died: HF_TOKEN={SECRET} MY_DIR=/data/qualice/x; see /data/qualice/log and {SECRET}"


def result(time, reason=None):
    env = {"gpu": "NVIDIA H200", "engine": f"/home/qualice/vllm {SECRET}"}
    point = {"metrics": {"step_ms_p50": time}} if reason is None else {"status": "failed", "reason": reason}
    sound = {"metrics": {"step_ms_p50": time}}
    return {"schema": 1, "env": env, "points": {f"/home/qualice/{SECRET}": sound, "b": point}}


def test_nothing_private_is_in_any_output(perf, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("USER", "qualice")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    (tmp_path / "base.json").write_text(json.dumps({"schema": 1, "results": [result(10 + n / 100) for n in range(12)]}))
    (tmp_path / "head.json").write_text(json.dumps(result(10.0, DIRTY)))
    options = [word for name in FORMATS for word in ("--write", f"{name}={tmp_path / name}")]
    ended = perf("gate", "--baseline", tmp_path / "base.json", "--head", tmp_path / "head.json", *options)
    assert ended.code == 3
    written = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix != ".json"}
    assert set(written) == {*FORMATS, "summary"}
    for name, text in {**written, "stdout": ended.out, "stderr": ended.err}.items():
        assert SECRET not in text, name
        assert "qualice" not in text, name
        assert "MY_DIR=/" not in text, name
    assert "MY_DIR=***" in written["junit"]


def test_every_format_is_named_in_the_help_and_in_the_description(perf):
    told = " ".join(perf("gate", "--help").out.split())
    assert all(name in told for name in FORMATS)
    assert parse_outputs(["annotations"])[0].path is None
