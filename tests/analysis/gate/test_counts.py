"""Counted metrics are compared exactly; zero is a count, nothing is not zero."""

from __future__ import annotations

from fractions import Fraction

import pytest
from stepscope.analysis.gate.exact import EXACT, judge_exact
from stepscope.analysis.gate.verdict import Reason, Verdict

CASES = [
    ([4096, 4096], [4096, 4096], Verdict.PASS, Reason.EQUAL),
    ([0, 0], [0, 0], Verdict.PASS, Reason.EQUAL),
    ([0, 0], [1, 1], Verdict.FAIL, Reason.MORE),
    ([4096], [4097], Verdict.FAIL, Reason.MORE),
    ([2, 3], [4, 5], Verdict.FAIL, Reason.MORE),
    ([5], [4], Verdict.PASS, Reason.FEWER),
    ([Fraction(1, 3)], [Fraction(1, 3) + Fraction(1, 10**18)], Verdict.FAIL, Reason.MORE),
    ([2, 3], [3, 3], Verdict.INCONCLUSIVE, Reason.COUNT_VARIES),
    ([2, 3], [2, 3], Verdict.INCONCLUSIVE, Reason.COUNT_VARIES),
    ([2], [], Verdict.ERROR, Reason.NOT_MEASURED),
    ([], [], Verdict.ERROR, Reason.NOT_MEASURED),
    ([2, 2], [2, None], Verdict.ERROR, Reason.NOT_MEASURED),
    ([0.5], [float("nan")], Verdict.ERROR, Reason.NOT_FINITE),
    ([float("inf")], [1], Verdict.ERROR, Reason.NOT_FINITE),
    ([1], [-1], Verdict.ERROR, Reason.NOT_POSITIVE),
]


@pytest.mark.parametrize("metric", EXACT)
@pytest.mark.parametrize(("base", "head", "word", "reason"), CASES)
def test_counts_are_compared_exactly(metric, base, head, word, reason):
    found = judge_exact("p", metric, {"base": base, "head": head})
    assert (found.verdict, found.reason) == (word, reason)


def test_a_missing_arm_is_not_measured():
    found = judge_exact("p", "syncs", {"base": [1]})
    assert (found.verdict, found.reason, found.detail) == (Verdict.ERROR, Reason.NOT_MEASURED, "head")


def test_counts_say_what_they_were():
    assert judge_exact("p", "launches", {"base": [7, 7], "head": [9, 10]}).detail == "base 7, head 9 to 10"
