"""Reason codes in words: none is without a sentence, and Markdown does not take a code apart."""

from __future__ import annotations

from stepscope.analysis.gate.point import PointVerdict
from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.reports.gate.markdown import render_gate
from stepscope.reports.gate.reasons import MEANINGS, meanings
from stepscope.reports.gate.terminal import render_terminal
from stepscope.reports.gate.words import last_line, name_of

from .made import result, verdict


def test_every_reason_has_a_sentence():
    assert set(MEANINGS) == set(Reason)
    assert len(set(MEANINGS.values())) == len(Reason)
    assert "fewer than 3 whole launches" in MEANINGS[Reason.TOO_FEW_LAUNCHES]


def test_each_reason_is_told_once_in_order():
    said = meanings([Reason.MORE, Reason.EQUAL, Reason.MORE])
    assert said == (("more", "the head counts more"), ("equal", "both sides count the same"))


def test_markdown_leaves_a_name_whole_and_escapes_what_would_be_emphasis():
    text = render_gate(result(verdict("a_b _c_", word=Verdict.INCONCLUSIVE)).suite)
    assert "a_b \\_c\\_::period_p50_ns" in text
    assert "- interval_too_wide: the interval is too wide to say" in text


def test_the_only_point_is_called_the_point():
    one = verdict("run", word=Verdict.FAIL)
    assert name_of(one) == "the point::period_p50_ns"
    assert "run" not in render_terminal(result(one)).replace("runs", "").split()


def test_a_pass_is_one_short_line():
    # GIVEN many metrics of two points, all within their limits
    changes = {f"metric_{index}_ns": index / 1000 for index in range(20)}
    suite = result(*(verdict(point, metric, effect=change)
                     for point in ("p" * 300, "q") for metric, change in changes.items())).suite  # fmt: skip
    line = last_line(suite)
    # THEN a log has how much was judged, and what came nearest to a regression
    assert line.startswith(f"PASS (within_limit): 40 metrics of 2 points; highest {'p' * 50}")
    assert line.endswith(": +1.90 % (90 %: +1.50 % to +2.30 %), n = 5")
    assert len(line) < 200


def test_a_pass_of_counts_alone_and_a_regression():
    counts = PointVerdict("p", "num_syncs", Verdict.PASS, Reason.EQUAL, stage=1)
    assert last_line(result(counts).suite) == "PASS (equal): 1 metric of 1 point"
    line = last_line(result(verdict(word=Verdict.FAIL, detail="in preprocess / build_indices"), counts).suite)
    assert line == (
        "FAIL (confirmed_on_fresh_data): decode/bs=32,kv=8192::period_p50_ns: confirmed_on_fresh_data; +0.10 %"
        " (90 %: -0.30 % to +0.50 %), n = 5; in preprocess / build_indices"
        " (confirmed_on_fresh_data: slower in the first launches, and again in fresh ones)"
    )
