import pytest
from stepscope.runner.inputs.dummy import shared_evenly


@pytest.mark.parametrize(("total", "parts", "shares"), [(8, 3, [2, 3, 3]), (6, 3, [2, 2, 2]), (2, 4, [0, 0, 1, 1])])
def test_shares_differ_by_one_and_the_larger_ones_are_last(total, parts, shares):
    assert shared_evenly(total, parts).tolist() == shares


def test_dummy_oracle(runner_oracle):
    for case in runner_oracle("make_dummy_v2"):
        (parts, total), out = case["in"], case["out"]
        shares = shared_evenly(total, parts)
        assert shares.sum() == total
        if "list" in out:
            assert shares.tolist() == out["list"]
        else:
            assert (shares.max(), shares.min()) == (out["max"], out["min"])
            assert (shares[parts - out["n_extra"] :] == out["max"]).all()
            assert (shares[: parts - out["n_extra"]] == out["min"]).all()
