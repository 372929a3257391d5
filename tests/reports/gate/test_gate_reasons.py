"""Reason codes in words: none is without a sentence, and Markdown does not take a code apart."""

from __future__ import annotations

from stepscope.analysis.gate.verdict import Reason, Verdict
from stepscope.reports.gate.markdown import render_gate
from stepscope.reports.gate.reasons import MEANINGS, meanings
from stepscope.reports.gate.terminal import render_terminal
from stepscope.reports.gate.words import name_of

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
