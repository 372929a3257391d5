"""Order statistics of integers are exact, and nothing is no number."""

from __future__ import annotations

from stepscope.analysis.stats import exact_ratio, mean, median, quantile, share


def test_median_is_an_integer_or_an_exact_half() -> None:
    assert median([3, 1, 2]) == 2
    assert (median([1, 3]), type(median([1, 3]))) == (2, int)
    assert median([1, 2]) == 1.5
    assert median([2**62, 2**62 + 2]) == 2**62 + 1


def test_quantiles_are_values_that_occur() -> None:
    values = list(range(1, 11))
    assert [quantile(values, percent) for percent in (0, 10, 11, 50, 90, 100)] == [1, 1, 2, 5, 9, 10]


def test_means_are_summed_without_overflow_or_rounding() -> None:
    assert mean([2**62, 2**62, 2**62 + 3]) == 2**62 + 1
    assert mean([1, 2]) == 1.5
    assert exact_ratio(7, 2) == 3.5
    assert exact_ratio(2**60, 1) == 2**60


def test_of_nothing_there_is_no_figure() -> None:
    assert [median([]), mean([]), quantile([], 50), share(0, 0), exact_ratio(None, 3), exact_ratio(3, 0)] == [None] * 6
