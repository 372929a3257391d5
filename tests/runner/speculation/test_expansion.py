"""The expanded logits indices: a worked example, a slow twin, and rows that are special."""

from __future__ import annotations

import numpy as np
from stepscope.runner.speculation.expansion import Expansion, expand


def expanded(scheduled: list[int], drafts: list[int]) -> Expansion:
    return expand(np.asarray(scheduled, dtype=np.int32), np.asarray(drafts, dtype=np.int32))


def test_the_worked_example() -> None:
    # GIVEN decodes with 3, 2 and 1 drafts between two chunks of 100 prompt tokens
    got = expanded([4, 100, 3, 100, 2], [3, 0, 2, 0, 1])
    # THEN chunks take their last place only, decodes the places before each draft and their last one
    assert got.logits_indices.tolist() == [0, 1, 2, 3, 103, 104, 105, 106, 206, 207, 208]
    assert got.target_logits_indices.tolist() == [0, 1, 2, 5, 6, 9]
    assert got.bonus_logits_indices.tolist() == [3, 4, 7, 8, 10]
    assert got.first_logits_indices.tolist() == [0, 4, 5, 8, 9]
    assert got.num_logits == 11


def test_equals_one_row_after_the_other() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        drafts = random.integers(0, 5, size=random.integers(1, 12)).tolist()
        scheduled = [count + 1 + int(random.integers(0, 3)) * (count == 0) for count in drafts]
        places, targets, bonus, end = [], [], [], 0
        for size, count in zip(scheduled, drafts, strict=True):
            end += size
            for back in range(count, -1, -1):
                (targets if back else bonus).append(len(places))
                places.append(end - 1 - back)
        got = expanded(scheduled, drafts)
        assert got.logits_indices.tolist() == places
        assert got.target_logits_indices.tolist() == targets
        assert got.bonus_logits_indices.tolist() == bonus


def test_without_drafts_it_is_the_last_place_of_each_row() -> None:
    got = expanded([1, 3, 2], [0, 0, 0])
    assert got.logits_indices.tolist() == [0, 3, 5]
    assert got.target_logits_indices.size == 0
    assert got.bonus_logits_indices.tolist() == [0, 1, 2]


def test_a_row_without_tokens_never_reaches_before_the_stream() -> None:
    assert expanded([0, 2], [0, 1]).logits_indices.tolist() == [0, 0, 1]
    assert expanded([], []).num_logits == 0
