import numpy as np
import pytest
from stepscope.runner.buffers.lag import FEW, RowLag

ROWS = 3 * FEW


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_taken_once_each_and_none_is_forgotten(seed):
    rng, lag, behind, kinds = np.random.default_rng(seed), RowLag(ROWS), set(), set()
    for _ in range(300):
        if rng.random() < 0.6:
            rows = rng.integers(0, ROWS, size=rng.integers(1, 4)).tolist()
            lag.note(rows)
            behind.update(rows)
        if rng.random() < 0.05:
            rows = rng.choice(ROWS, size=FEW + 1, replace=False)
            lag.note_many(rows)
            behind.update(rows.tolist())
        assert lag.any == bool(behind)
        if rng.random() < 0.4:
            height = int(rng.choice([0, 2, ROWS // 2, ROWS]))
            taken = lag.take(height)
            kinds.add(type(taken))
            assert sorted(int(row) for row in taken) == sorted(row for row in behind if row < height)
            behind = {row for row in behind if row >= height}
    assert kinds == {list, np.ndarray}


def test_a_list_that_grew_too_long_loses_none_of_its_rows():
    lag = RowLag(ROWS)
    for row in range(FEW + 5):
        lag.note([row])
    assert lag.take(ROWS).tolist() == list(range(FEW + 5))
    assert not lag.any
    lag.note([7, 7])
    assert lag.take(ROWS) == [7]
