"""The loop of docs/probe.md runs as it stands there, and makes a recording of what it says."""

import re
from pathlib import Path

from stepscope.instrumentation.recording import Recording

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "probe.md").read_text(encoding="utf-8")


def test_the_documented_loop_makes_a_recording(tmp_path, monkeypatch):
    # GIVEN the example, in an empty folder
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # WHEN it runs
    exec(compile(code, "docs/probe.md", "exec"), {"__name__": "example"})
    # THEN 100 steps are there with their phases and sub-ranges, ten of them warm-up, and no device time
    recording = Recording.load(tmp_path / "my-loop" / "recording")
    steps, phases, spans = (recording.table(name) for name in ("steps", "phases", "spans"))
    assert list(steps["num_tokens"]) == [500] * 100
    assert int(steps["warmup"].sum()) == 10
    assert phases["name"].value_counts().to_dict() == {
        "preprocess": 100, "forward": 100, "sample": 100, "between_steps": 99,
    }
    assert phases["span_ns"].isna().all()
    assert {"build_inputs", "schedule"} <= set(spans["name"])
    assert recording.meta.reason("phases", "span_ns")
