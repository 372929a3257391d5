"""Interval algebra against sets of integers, and overlap bounds against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.analysis import intervals as iv

BASES = [0, 2**60]


def cells(values: np.ndarray) -> set[int]:
    return {cell for start, end in iv.intervals(values).tolist() for cell in range(start, end)}


def random_set(rng: np.random.Generator) -> np.ndarray:
    starts = rng.integers(0, 60, size=rng.integers(0, 6))
    return np.stack((starts, starts + rng.integers(-2, 12, size=len(starts))), axis=1)


@pytest.mark.parametrize("base", BASES)
def test_algebra_equals_sets_of_cells(base: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, b = random_set(rng), random_set(rng)
        window = (5, 50)
        shifted_window = (base + 5, base + 50)
        assert cells(iv.merge(a + base) - base) == cells(a)
        assert cells(iv.union(a + base, b + base) - base) == cells(a) | cells(b)
        assert cells(iv.intersect(a + base, b + base) - base) == cells(a) & cells(b)
        assert cells(iv.subtract(a + base, b + base) - base) == cells(a) - cells(b)
        assert cells(iv.gaps(a + base, shifted_window) - base) == set(range(*window)) - cells(a)
        assert iv.length(a + base) == len(cells(a))
        assert iv.overlap(a + base, b + base) == len(cells(a) & cells(b))


def test_merge_joins_touching_and_drops_empty() -> None:
    merged = iv.merge([[5, 9], [0, 3], [3, 4], [7, 7], [8, 6]])
    assert merged.tolist() == [[0, 4], [5, 9]]
    assert iv.merge([]).tolist() == []


def test_bounds_reach_a_maximum_between_the_ends() -> None:
    value, low, high = iv.pairwise_overlap_bounds([[100, 120]], [[100, 120]], [5.5])
    assert (value[0], low[0], high[0]) == (20, 14.5, 20.0)


@pytest.mark.parametrize("base", BASES)
def test_pairwise_bounds_equal_brute_force_on_1e5_cases(base: int) -> None:
    # GIVEN 100,000 random pairs and errors in half nanoseconds
    rng = np.random.default_rng(2)
    count, limit = 100_000, 24
    c0, b0 = rng.integers(0, 40, count), rng.integers(0, 40, count)
    c = np.stack((c0, c0 + rng.integers(0, 30, count)), axis=1)
    b = np.stack((b0, b0 + rng.integers(0, 30, count)), axis=1)
    half_err = rng.integers(0, limit + 1, count)
    # WHEN every shift on the half-nanosecond grid is tried
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    for half in range(-limit, limit + 1):
        ends = np.minimum(2 * c[:, 1] + half, 2 * b[:, 1])
        shared = np.maximum(0, ends - np.maximum(2 * c[:, 0] + half, 2 * b[:, 0]))
        inside = abs(half) <= half_err
        low = np.where(inside, np.minimum(low, shared / 2), low)
        high = np.where(inside, np.maximum(high, shared / 2), high)
    value, found_low, found_high = iv.pairwise_overlap_bounds(c + base, b + base, half_err / 2)
    # THEN value and both bounds are equal, exactly
    expected = np.maximum(0, np.minimum(c[:, 1], b[:, 1]) - np.maximum(c[:, 0], b[:, 0]))
    assert np.array_equal(value, expected)
    assert np.array_equal(found_low, low)
    assert np.array_equal(found_high, high)
