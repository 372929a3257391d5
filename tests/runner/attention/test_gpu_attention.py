"""Paged attention in bfloat16 at the shape of llama-1b, against plain float32 attention over the gathered keys."""

import numpy as np
import pytest
import torch
from stepscope.runner.attention.metadata import CommonAttentionMetadata

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 64
BOUND = 2**-8
"""Of the norm of a row's result: a bfloat16 has 8 bits, so rounding probabilities and result costs 2^-9 each."""

BATCHES = {
    "decode": [(int(n), 1) for n in np.linspace(1, 2000, 64)],
    "decode, long and split": [(49_999, 1), (16, 1), (4_096, 1)],
    "one decode of 50k": [(49_999, 1)],
    "prefill": [(0, 1), (0, 700), (0, 64)],
    "mixed": [(0, 700), (3_000, 1), (49_999, 1), (1_000, 300), (0, 1), (511, 65)],
    "long chunk": [(30_000, 128), (40, 1)],
}


class Batch:
    """Rows of (computed, scheduled) tokens whose blocks lie scattered in a cache full of other numbers."""

    def __init__(self, rows, block_size, device, dtype=torch.bfloat16):
        rng, generator = np.random.default_rng(len(rows)), torch.Generator(device).manual_seed(len(rows))
        computed, queries = (np.array(column, np.int32) for column in zip(*rows, strict=True))
        self.lens, self.starts = computed + queries, np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
        counts = -(-self.lens // block_size)
        ids = rng.permutation(np.arange(1, 1 + counts.sum()))
        self.table = np.zeros((len(rows), counts.max() + 1), np.int32)
        for row, part in enumerate(np.split(ids, np.cumsum(counts)[:-1])):
            self.table[row, : len(part)] = part
        owner = np.repeat(np.arange(len(rows)), queries)
        positions = (computed[owner] + np.arange(len(owner)) - self.starts[owner]).astype(np.int64)
        slots = self.table[owner, positions // block_size].astype(np.int64) * block_size + positions % block_size

        def random(*shape):
            return torch.randn(shape, generator=generator, device=device).to(dtype)

        tokens = len(owner)
        self.query, self.key, self.value = (random(tokens, n, HEAD_DIM) for n in (HEADS, KV_HEADS, KV_HEADS))
        self.caches = [random(1 + counts.sum(), block_size, KV_HEADS, HEAD_DIM) for _ in range(2)]
        arrays = [self.starts, self.lens, self.table, slots, positions]
        self.common = CommonAttentionMetadata(
            len(rows), len(rows), len(owner), len(owner), int(queries.max()), int(self.lens.max()),
            *(torch.from_numpy(array).to(device) for array in arrays), self.starts, self.lens,
            np.zeros(len(rows), "?"), uniform=bool((queries == 1).all()),
        )  # fmt: skip

    def run(self, backend):
        return backend.forward(self.query, self.key, self.value, *self.caches, backend.build(self.common))

    def reference(self):
        """float32, row by row; call it when `run` has written the new keys and values."""
        out = torch.empty(self.query.shape, device=self.query.device)
        for row, length in enumerate(self.lens):
            first, end = self.starts[row : row + 2]
            blocks = torch.from_numpy(self.table[row]).to(out.device)
            keys, values = (cache[blocks].flatten(0, 1)[:length].float() for cache in self.caches)
            query = self.query[first:end].float().unflatten(1, (KV_HEADS, -1))
            scores = torch.einsum("qkgd,skd->kgqs", query, keys) * HEAD_DIM**-0.5
            hidden = torch.arange(length, device=out.device) > torch.arange(
                length - (end - first), length, device=out.device
            ).unsqueeze(1)
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            out[first:end] = torch.einsum("kgqs,skd->qkgd", weights, values).flatten(1, 2)
        return out


def error(found, expected):
    """Largest error of a query's result (all heads), as a share of its norm."""
    difference = (found.float() - expected).flatten(1).norm(dim=1)
    return float((difference / expected.flatten(1).norm(dim=1)).max())


@pytest.fixture(autouse=True)
def full_float32(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("name", BATCHES)
def test_bfloat16_within_its_rounding(name, block_size):
    from stepscope.runner.attention.triton_backend import TritonAttention

    batch = Batch(BATCHES[name], block_size, "cuda")
    found = batch.run(TritonAttention())
    assert error(found, batch.reference()) <= BOUND


def test_a_block_taken_from_the_neighbour_is_far_outside_the_bound():
    from stepscope.runner.attention.triton_backend import TritonAttention

    batch = Batch(BATCHES["decode"], 16, "cuda")
    batch.common.block_table[5, 0] = batch.common.block_table[6, 0]
    found = batch.run(TritonAttention())
    assert error(found, batch.reference()) > 10 * BOUND
