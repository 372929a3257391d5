import numpy as np
import pytest
from stepscope.runner.attention.common import pad_boundaries, pad_prefilling


@pytest.mark.parametrize(
    ("query_lens", "rows", "padded"),
    [([1, 1, 1], 8, [0, 1, 2, 3, 3, 3, 3, 3, 3]), ([4, 4, 4], 5, [0, 4, 8, 12, 12, 12]), ([2], 1, [0, 2])],
)
def test_boundaries_never_fall_in_the_padding(query_lens, rows, padded):
    boundaries = np.cumsum([0, *query_lens], dtype=np.int32)
    assert pad_boundaries(boundaries, rows).tolist() == padded


def test_case_9(shared_case):
    case, expected = shared_case(9)
    for given, wanted in ((case, expected["query_start_loc"]), (case["case2"], expected["case2"])):
        boundaries = np.cumsum([0, *given["query_lens"]], dtype=np.int32)
        assert pad_boundaries(boundaries, given["padded_reqs"]).tolist() == wanted


def test_stale_rows_behind_the_batch_do_not_prefill():
    num_computed, num_prompt = np.array([50, 100, 200, 10, 20]), np.array([50, 200, 200, 100, 200])
    is_prefilling = (num_computed < num_prompt)[:3]
    assert pad_prefilling(is_prefilling, 5).tolist() == [False, True, False, False, False]


def test_prefilling_oracle(runner_oracle):
    for case in runner_oracle("is_prefilling_padding"):
        given = case["in"]
        live = slice(given["num_reqs"])
        is_prefilling = np.asarray(given["num_computed"])[live] < np.asarray(given["num_prompt"])[live]
        assert pad_prefilling(is_prefilling, given["num_reqs_padded"]).tolist() == case["out"]
