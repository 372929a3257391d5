"""The scatter of the token hand-off against NumPy: on a GPU, or in Triton's interpreter."""

import os

import numpy as np
import pytest
import torch
from stepscope.runner.handoff.roads import scatter_on_host

pytest.importorskip("triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU or Triton's interpreter"
)


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("count", [1, 16, 255, 256, 300])
def test_tokens_land_where_the_map_says_and_nowhere_else(count, width):
    from stepscope.runner.handoff.scatter_kernel import scatter_tokens

    random = np.random.default_rng(count)
    pairs = np.full(1024, -9, dtype=np.int32)  # what lies behind the map is an older step's
    pairs[:count], pairs[count : 2 * count] = random.permutation(1000)[:count], random.permutation(512)[:count]
    sampled = torch.from_numpy(random.integers(0, 10_000, (512, width)).astype(np.int32))
    wanted = torch.full((1000,), -7, dtype=torch.int32)
    scatter_on_host(torch.from_numpy(pairs), sampled, wanted, count)
    assert wanted[int(pairs[0])] == sampled[int(pairs[count]), 0]
    got = torch.full((1000,), -7, dtype=torch.int32, device=DEVICE)
    scatter_tokens(torch.from_numpy(pairs).to(DEVICE), sampled.to(DEVICE), got, count)
    assert torch.equal(got.cpu(), wanted)
