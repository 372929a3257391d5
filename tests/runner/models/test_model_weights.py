import dataclasses
import hashlib

import pytest
import torch
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.weights import random_weights

TINY = NAMED["tiny"]
CPU = torch.device("cpu")


def test_weights_are_the_same_bits_on_every_machine():
    weights = random_weights(TINY, 0, CPU)
    digest = hashlib.sha256(weights.layers[1].down.numpy().tobytes()).hexdigest()
    assert digest[:16] == "03b7e2231ca4b997"


def test_seeds_and_tensors_have_streams_of_their_own():
    first, again, other = (random_weights(TINY, seed, CPU) for seed in (0, 0, 1))
    assert torch.equal(first.lm_head, again.lm_head)
    assert not torch.equal(first.lm_head, other.lm_head)
    assert not torch.equal(first.lm_head, first.embedding)
    deeper = random_weights(dataclasses.replace(TINY, num_hidden_layers=3), 0, CPU)
    assert torch.equal(deeper.layers[1].qkv, first.layers[1].qkv)


def test_spread_and_centre_are_as_configured():
    embedding = random_weights(TINY, 0, CPU).embedding
    assert float(embedding.std()) == pytest.approx(TINY.init_std, rel=0.01)
    assert abs(float(embedding.mean())) < 0.005


def test_tied_embeddings_share_memory_and_dtype_follows_the_shape():
    config = dataclasses.replace(TINY, tie_word_embeddings=True, dtype="bfloat16")
    weights = random_weights(config, 0, CPU)
    assert weights.lm_head.data_ptr() == weights.embedding.data_ptr()
    assert weights.layers[0].qkv.dtype == weights.final_norm.dtype == torch.bfloat16
