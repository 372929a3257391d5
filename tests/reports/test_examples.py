"""The recordings that come with the project open without a GPU and show measured figures."""

from pathlib import Path

import pytest
from stepscope.instrumentation.recording.reader import Recording
from stepscope.reports import render

H200 = Path(__file__).parents[2] / "examples" / "recordings" / "h200"
RUNS = ("decode", "chunked-prefill", "pageable-staging")


@pytest.mark.parametrize("name", RUNS)
def test_a_measured_recording_renders_as_measured(name: str) -> None:
    recording = Recording.load(H200 / name / "recording")
    assert (recording.meta.device, recording.meta.modelled) == ("cuda", False)
    text = render(recording, "text", name=name)
    assert "device cuda" in text
    assert "modelled" not in text


def test_copies_say_whether_they_were_queued_and_how_sure_their_times_are() -> None:
    copies = Recording.load(H200 / "decode" / "recording").table("copies")
    timed = copies[copies["start_ns"].notna()]
    assert len(timed) > 0
    assert timed["queued"].notna().all()
    assert (timed["err_ns"] > 0).all()


def test_the_examples_stay_small() -> None:
    assert sum(path.stat().st_size for path in H200.rglob("*") if path.is_file()) < 8_000_000
