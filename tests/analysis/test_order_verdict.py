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


def measured(gain, left, copy, free=None, uncalled=None):
    """A row of arms that took turns; gain and left as (mean, low, high), all in us."""
    named = (("last_minus_first", gain), ("first_minus_skip", left))
    row = {f"{name}{end}_ns": 1e3 * of[at] for name, of in named for at, end in enumerate(("", "_low", "_high"))}
    replayed = {} if free is None else {"exposed_step_ns": 1e3 * free, "commit_step_ns": 1e3 * uncalled}
    return {**row, **replayed, "copy_ns": 1e3 * copy}


@pytest.mark.parametrize(("row", "order", "shown"), [
    # GIVEN differences whose intervals are wider than the copy is long
    (measured((2.9, -52, 58), (51.5, -21, 124), 56.6), "unresolved", "unresolved"),
    (measured((2.9, -52, 58), (3.0, -60, 66), 56.6), "unresolved", "unresolved"),
    # narrow ones: of an H200, with two steps in flight
    (measured((-4.5, -11.3, 2.3), (157, 152, 163), 151.4), "worth_nothing", "exposed"),
    (measured((-2.2, -14.7, 10.3), (3.9, -15.9, 23.8), 154.3), "worth_nothing", "hidden"),
    # the replay of a synchronous step: a free copy saves nothing, the call that is not made 53.9 us
    (measured((2, -3, 4), (51.5, 45, 58), 56.6, 0, 53.9), "worth_nothing", "call"),
    (measured((2, -3, 4), (157, 152, 163), 151.4, 150, 156), "worth_nothing", "exposed"),
])
def test_intervals_and_the_call_decide_what_may_be_said(row, order, shown):
    verdict = order_verdict(row)
    assert (verdict.order, verdict.copy) == (order, shown)
    assert ("the whole copy is exposed" in sentence(verdict)) == (shown == "exposed")


def test_a_call_is_told_with_its_time():
    said = sentence(order_verdict(measured((2, -3, 4), (51.5, 45, 58), 56.6, 0, 53.9)))
    assert "51.5 µs are saved (first - skip), most of it the host's call for it (53.9 µs by the replay)" in said


def test_what_is_not_resolved_is_no_part_of_the_copy():
    said = sentence(order_verdict(measured((5.7, -43, 54.5), (30.5, -31.7, 92.8), 2.59)))
    assert said.endswith("how much of the copy is exposed is not resolved (first - skip: 30.5 µs, |C|: 2.59 µs)")
