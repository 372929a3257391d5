"""The accepted length on a recording's page: a section and a figure of the first answer, only where drafts were."""

from __future__ import annotations

from stepscope.reports import SweepPoint, SweepView, render, render_sweep


def test_it_stands_there_where_drafts_were_verified(recordings) -> None:
    recording = recordings(6)
    assert "Speculation" not in render(recording, "text", name="x")
    # GIVEN each of the five counted steps with 2 requests, 8 drafts and 3 accepted: 1 + 15 / 10
    steps = recording.tables["steps"]
    steps["drafted_reqs"], steps["drafted_tokens"], steps["accepted_tokens"] = 2, 8, 3
    text = " ".join(render(recording, "text", name="x").split())
    assert "accepted length, mean 2.50 tokens" in text
    assert "15 of 40 drafts were accepted (37.5 %) in 5 steps: a request with drafts went on by 2.50 tokens" in text


def test_a_sweep_has_its_column_only_where_a_point_has_it() -> None:
    def page(length: float | None) -> str:
        metrics = {"period_p50_ns": 1, "accepted_length_mean": length}
        return render_sweep(SweepView("s", (SweepPoint("a", {"k": 1}, metrics=metrics),)), "md")

    assert "accepted length mean" not in page(None)
    assert "| 2.5 |" in page(2.5) or "| 2.50 |" in page(2.5)
