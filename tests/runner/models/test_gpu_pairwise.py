"""On a GPU: all pairs of switches that go together there, pinned memory, streams, graphs and Triton included."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from .pairwise import CoveringArray
from .test_pairwise_equality import FACTORS, answers, refusal

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
GPU = SimpleNamespace(tensor_device=SimpleNamespace(type="cuda"))  # all that a choice of attention asks
FACTORS_THERE = FACTORS | {"device": ("cuda",)}
ROWS = CoveringArray(FACTORS_THERE, partial(refusal, device=GPU)).rows if torch.cuda.is_available() else ()


@pytest.mark.parametrize("row", ROWS, ids=map(str, range(len(ROWS))))
def test_the_text_is_transformers_for_every_pair(run, gpu_reference, gpu_hybrid_reference, row) -> None:
    answers(run, gpu_reference if row["kv_groups"] == ("full",) else gpu_hybrid_reference, row)
