"""Nesting of ranges without loops, against a stack that walks through every moment."""

import numpy as np
import pytest
from stepscope.instrumentation.sources.arrays import distinct, grouped
from stepscope.instrumentation.sources.nesting import depths, in_order, parents, segments


def arrays(*ranges):
    start, end = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    order = in_order(start, end)
    return start[order], end[order]


def nested(rng, begin, end, level=0):
    """Random ranges that nest properly."""
    found, at = [], begin
    while at < end and len(found) < 4:
        first = rng.integers(at, end + 1)
        last = rng.integers(first, end + 1)
        found.append((int(first), int(last)))
        if level < 3:
            found += nested(rng, int(first), int(last), level + 1)
        at = int(last)
    return found


def test_depth_and_parent_of_a_small_tree():
    start, end = arrays((0, 100), (10, 40), (20, 30), (50, 60))
    depth = depths(start, end)
    assert depth.tolist() == [0, 1, 2, 1]
    assert parents(start, end, depth).tolist() == [-1, 0, 1, 0]


def test_ranges_that_touch_do_not_contain_one_another():
    start, end = arrays((0, 10), (10, 20), (10, 15))
    assert depths(start, end).tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_segments_are_the_innermost_range_of_each_moment(seed):
    rng = np.random.default_rng(seed)
    ranges = nested(rng, 0, 60)
    if not ranges:
        return
    start, end = np.array(ranges, dtype=np.int64).T
    wanted = {}
    for moment in range(60):
        inside = [n for n in range(len(ranges)) if start[n] <= moment < end[n]]
        if inside:
            wanted[moment] = min(int(end[n] - start[n]) for n in inside)
    found = {}
    for begin, finish, row in zip(*(own.tolist() for own in segments(start, end)), strict=True):
        assert start[row] <= begin < finish <= end[row]
        for moment in range(begin, finish):
            assert moment not in found
            found[moment] = int(end[row] - start[row])
    assert found == wanted


@pytest.mark.parametrize("seed", range(30))
def test_where_ranges_cross_the_one_that_began_later_counts(seed):
    rng = np.random.default_rng(seed)
    start = np.sort(rng.choice(60, size=12, replace=False)).astype(np.int64)
    end = start + rng.integers(0, 25, size=12)
    wanted = {}
    for moment in range(90):
        inside = [n for n in range(12) if start[n] <= moment < end[n]]
        if inside:
            wanted[moment] = max(inside)
    found = {}
    for begin, finish, row in zip(*(own.tolist() for own in segments(start, end)), strict=True):
        assert not found.keys() & set(range(begin, finish))
        found.update(dict.fromkeys(range(begin, finish), row))
    assert found == wanted


def test_ranges_that_only_overlap_take_no_time_to_sort_out():
    # GIVEN a thousand ranges that all overlap: levels as many as ranges
    start = np.arange(2000, dtype=np.int64)
    end = start + 5000
    begin, finish, _ = segments(start, end)
    assert int((finish - begin).sum()) <= 6999


def test_groups_are_numbered_in_the_order_of_their_keys():
    number, first = grouped(np.array([5, 3, 5, 3, -7]), np.array([1, 9, 0, 9, 2]))
    assert number.tolist() == [3, 1, 2, 1, 0]
    assert first.tolist() == [4, 1, 2, 0]
    assert grouped(np.zeros(0, dtype=np.int64))[1].tolist() == []


def test_distinct_values_are_sorted():
    found, place = distinct(np.array([7, -2, 7, 0]))
    assert found.tolist() == [-2, 0, 7]
    assert place.tolist() == [2, 0, 2, 1]
