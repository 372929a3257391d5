"""Planes through points some of which are far off."""

import numpy as np
from stepscope.analysis.fits import least_absolute


def test_points_far_off_do_not_move_the_plane():
    rng = np.random.default_rng(0)
    terms = np.column_stack([rng.normal(0, 50_000, (300, 2)), np.ones(300)])
    values = terms @ [3.0, -0.5, 40_000] + rng.normal(0, 500, 300)
    values[::10] += 3_000_000
    found = least_absolute(terms, values)
    assert (np.abs(found - [3.0, -0.5, 40_000]) < [0.01, 0.01, 200]).all()
    assert abs(np.linalg.lstsq(terms, values, rcond=None)[0][2] - 40_000) > 200_000


def test_what_cannot_be_told_is_kept_small():
    twice = np.arange(50, dtype=np.float64) * 1_000
    terms = np.column_stack([twice, twice, np.zeros(50), np.ones(50)])
    assert np.allclose(least_absolute(terms, 4 * twice + 7), [2, 2, 0, 7], atol=1e-6)
