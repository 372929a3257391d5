"""Prompt lookup against the slow and obvious way, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from stepscope.runner.speculation.drafts import NO_DRAFT
from stepscope.runner.speculation.ngram import NgramProposer, NgramRule


def looked_up(history: list[int], rule: NgramRule, max_model_len: int) -> list[int]:
    """The definition, word by word: the largest n, then the earliest place."""
    total = len(history)
    room = min(rule.num_drafts, max_model_len - 1 - total)
    for n in range(rule.max_n, rule.min_n - 1, -1):
        if n >= total or room <= 0:
            continue
        for start in range(total - n):
            if history[start : start + n] == history[total - n :]:
                return history[start + n : start + n + room]
    return []


def proposed(histories: list[list[int]], rule: NgramRule, max_model_len: int = 64) -> list[list[int]]:
    table = np.zeros((len(histories), 64), dtype=np.int32)
    table[:, :] = 77  # behind the history lies anything
    for row, history in enumerate(histories):
        table[row, : len(history)] = history
    lengths = np.asarray([len(history) for history in histories], dtype=np.int32)
    found = NgramProposer(rule, max_model_len).propose(table, lengths)
    assert (found.drafts[np.arange(rule.num_drafts) >= found.counts[:, None]] == NO_DRAFT).all()
    return [row[:count].tolist() for row, count in zip(found.drafts, found.counts, strict=True)]


@pytest.mark.parametrize(
    ("history", "drafts"),
    [
        ([1, 2, 3, 9, 1, 2, 3], [9, 1, 2]),  # three tokens match: the text goes on with 9
        ([5, 2, 3, 7, 1, 2, 3, 8, 2, 3], [7, 1, 2]),  # 2 3 stands at 1 and at 5: the earlier place
        ([2, 3, 7, 1, 2, 3, 8, 1, 2, 3], [8, 1, 2]),  # 1 2 3 beats the earlier 2 3
        ([4, 4, 4], [4]),  # matches may overlap; one token is left behind the earliest
        ([1, 2, 3, 4], []),
        ([3], []),
        ([6, 3, 3], []),  # one equal token is too little
    ],
)
def test_by_hand(history: list[int], drafts: list[int]) -> None:
    assert proposed([history], NgramRule(3, 2, 4)) == [drafts]


def test_equals_the_definition_on_random_texts() -> None:
    # GIVEN texts of few words, so that matches of every length occur, and rows that ask for nothing
    random = np.random.default_rng(20)
    for trial in range(60):
        rule = NgramRule(*((3, 1, 3), (5, 2, 5), (1, 2, 2), (4, 1, 1))[trial % 4])
        histories = [random.integers(0, 3, size=random.integers(0, 63)).tolist() for _ in range(9)]
        limit = int(random.integers(40, 65))
        # WHEN, THEN
        assert proposed(histories, rule, limit) == [looked_up(history, rule, limit) for history in histories]


def test_nothing_is_proposed_past_the_longest_sequence() -> None:
    # GIVEN a row with 6 tokens that would go on for long
    history, rule = [1, 2, 1, 2, 1, 2], NgramRule(4, 1, 2)
    # WHEN max_model_len leaves room, little room, or none for the token behind the drafts
    # THEN the drafts shrink: 6 + d drafts and one more token fit into max_model_len
    assert [len(proposed([history], rule, limit)[0]) for limit in (11, 10, 9, 8, 7, 6)] == [4, 3, 2, 1, 0, 0]


def test_rows_that_ask_for_nothing() -> None:
    # GIVEN a step in which nobody showed a token: lengths of 0, and not even a column of history
    found = NgramProposer(NgramRule(3, 1, 3), 64).propose(np.zeros((2, 0), np.int32), np.zeros(2, np.int32))
    assert found.counts.tolist() == [0, 0]


def test_the_table_by_request_leaves_out_rows_without_drafts() -> None:
    table = np.asarray([[1, 2, 1, 2, 0], [1, 2, 3, 4, 5]], dtype=np.int32)
    found = NgramProposer(NgramRule(2, 1, 3), 64).propose(table, np.asarray([4, 5], dtype=np.int32))
    assert found.by_request(("a", "b")) == {"a": (1, 2)}
