"""Commit orders side by side become a verdict, and the verdict a sentence."""

import pytest
from stepscope.analysis.order_verdict import order_verdict
from stepscope.reports.pages.order_words import order_words, sentence

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


def paired(*rows):
    import pandas as pd

    columns = ("runner.table_width", "launches", "last_minus_first_ns", "last_minus_first_low_ns",
               "last_minus_first_high_ns", "first_minus_skip_ns", "first_minus_skip_low_ns", "first_minus_skip_high_ns",
               "copy_ns")  # fmt: skip
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows]).convert_dtypes()


def test_differences_come_with_their_intervals_and_separate_runs_with_no_verdict():
    # GIVEN arms that took turns in five launches, in one launch, and two pairs of separate runs
    found = paired(
        (8192, 5, 106_700.0, 79_900.0, 133_400.0, 36_500.0, 7_900.0, 65_000.0, 156_700.0),
        (512, 1, 20_000.0, None, None, 30_000.0, None, None, 5_000.0),
        (128, None, -167_000.0, None, None, -726_000.0, None, None, 15_400.0),
        (64, None, 3_000.0, None, None, 2_000.0, None, None, 15_400.0),
    )
    said = [words.text for words in order_words(found, ("runner.table_width",))]
    assert said[0].startswith("table width 8192: committing first instead of last saves 107 µs; 36.5 µs of the copy's")
    assert "; 95 % over n = 5 launches: last - first 79.9 µs to 133 µs, first - skip 7.90 µs to 65.0 µs." in said[0]
    assert said[1].endswith("; no interval: n = 1 launch.")
    assert len(said) == 3
    assert said[2].startswith("Of 2 of 4 settings the orders are separate runs: ")


def test_an_interval_that_holds_zero_resolves_nothing():
    row = {"last_minus_first_ns": 12_000.0, "last_minus_first_low_ns": -20_000.0, "last_minus_first_high_ns": 44_000.0}
    assert order_verdict(row).order == "unresolved"
    assert "not resolved (last - first: 12.0 µs)" in sentence(order_verdict(row))
    assert order_verdict({**row, "last_minus_first_low_ns": 1.0}).order == "worth"
