"""Numbers as text: units, digits, signs, and what is missing."""

from __future__ import annotations

import pytest
from stepscope.reports.document import Link, Missing, Quantity
from stepscope.reports.formatting import cell, count, duration, fixed, percent, quantity, significant, size, sort_value


@pytest.mark.parametrize(("ns", "text"), [
    (0, "0 ns"), (1, "1 ns"), (850, "850 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (12_345, "12.3 µs"),
    (123_456, "123 µs"), (1_234_567, "1.23 ms"), (45_600_000, "45.6 ms"), (2_500_000_000, "2.50 s"),
    (-5_000, "-5.00 µs"), (0.5, "0.500 ns"), (1_500.0, "1.50 µs"), (3_600_000_000_000, "3600 s"),
])
def test_duration_takes_the_largest_unit_with_a_leading_digit(ns, text):
    assert duration(ns) == text


@pytest.mark.parametrize(("value", "text"), [
    (0, "0 B"), (100, "100 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), (8 << 20, "8 MiB"), (268_435_456, "256 MiB"),
    (5 << 40, "5 TiB"), (-2048, "-2 KiB"),
])
def test_size(value, text):
    assert size(value) == text


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0 %"), (0.1234, "12.3 %"), (1.0, "100 %"), (0.00012, "0.012 %"), (-0.05, "-5.00 %"), (2.5, "250 %"),
    (0.9999, "100 %"),
])
def test_percent(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (9999, "9999"), (10_000, "10,000"), (2.5, "2.50"), (3.0, "3")])
def test_count(value, text):
    assert count(value) == text


def test_significant_keeps_integer_digits_and_never_writes_an_exponent():
    assert [significant(v) for v in (1234.5, 12.34, 0.01234, 1e-9)] == ["1234", "12.3", "0.0123", "0.00000000100"]


def test_fixed_has_no_negative_zero():
    assert fixed(-0.01) == "0.0"


def test_a_column_with_a_unit_leaves_the_unit_out():
    assert quantity(Quantity(12_345, "ns"), "us") == "12.3"
    assert quantity(Quantity(12_345, "ns"), "ms") == "0.012"
    assert quantity(Quantity(0.5, "fraction"), "fraction") == "50.0"


def test_exact_keeps_every_digit():
    assert quantity(Quantity(2**60 + 1, "exact")) == "1152921504606846977"


def test_bounds_are_written_unless_they_say_nothing():
    assert quantity(Quantity(14_500, "ns", 14_500, 20_000)) == "14.5 µs (14.5 µs to 20.0 µs)"
    assert quantity(Quantity(14_500, "ns", 14_500, 14_500)) == "14.5 µs"


def test_missing_says_so_and_sorts_last():
    assert cell(Missing("no GPU")) == "not measured (no GPU)"
    assert cell(Missing("")) == "not measured"
    assert sort_value(Missing("no GPU")) == ""
    assert sort_value(Quantity(0, "ns")) == "0"
    assert cell(Link("page", "x.html")) == "page"
