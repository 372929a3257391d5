"""Commit orders side by side become a verdict, and the verdict a sentence."""

import pytest
from stepscope.analysis.order_verdict import order_verdict
from stepscope.reports.pages.order_words import sentence

SAID = [
    # last - first, first - skip, |C| in us, order, copy, words. The first four rows are those of an H200
    (91, 53, 155, "worth", "partly", "committing first instead of last saves 91.0 µs; 53.0 µs of the copy's 155 µs"),
    (0.6, 157, 155, "worth_nothing", "exposed", "the order is worth nothing (last - first: 600 ns); the whole copy is"),
    (-0.2, 153, 155, "worth_nothing", "exposed", "the order is worth nothing"),
    (-0.4, 8, 155, "worth_nothing", "hidden", "the copy is hidden (first - skip: 8.00 µs of 155 µs"),
    (-60, 157, 155, "backwards", "exposed", "committing first costs more than committing last (-60.0 µs)"),
    (5.1, 200, 155, "worth", "more", "more is saved than it takes (first - skip: 200 µs, |C|: 155 µs)"),
    (None, 10, 155, "unknown", "hidden", "what the order is worth was not measured"),
    (1, None, 155, "worth_nothing", "unknown", "how much of the copy is exposed was not measured"),
    (1, 10, None, "worth_nothing", "unknown", "how much of the copy is exposed was not measured"),
]


@pytest.mark.parametrize(("gain", "left", "copy", "order", "shown", "words"), SAID)
def test_what_is_said(gain, left, copy, order, shown, words):
    figures = {"last_minus_first_ns": gain, "first_minus_skip_ns": left, "copy_ns": copy}
    row = {name: None if value is None else value * 1e3 for name, value in figures.items()}
    verdict = order_verdict(row)
    assert (verdict.order, verdict.copy) == (order, shown)
    assert words in sentence(verdict)
