"""The fused kernels against torch's operators. On a GPU directly; elsewhere through test_triton_interpreted.py."""

import dataclasses
import os

import numpy as np
import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.models.config import ModelConfig
from stepscope.runner.models.kv_cache import LayerKV
from stepscope.runner.models.layer_ops import TorchOps, make_layer_ops

pytest.importorskip("triton")
ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
MAX_POSITIONS, BLOCKS, BLOCK = 64, 8, 4
SHAPE = ModelConfig(  # no power of two but the head: every mask has something to hide
    name="odd", vocab_size=8, hidden_size=48, intermediate_size=40, num_hidden_layers=1,
    num_attention_heads=5, num_key_value_heads=5, head_dim=16,
)  # fmt: skip
GROUPED = dataclasses.replace(SHAPE, name="grouped", num_attention_heads=6, num_key_value_heads=2)
DTYPES = ["float32", "bfloat16"] if ON_GPU else ["float32"]
runs_kernels = pytest.mark.skipif(not (ON_GPU or INTERPRETED), reason="see test_triton_interpreted.py")


@pytest.fixture(params=DTYPES)
def config(request):
    torch.manual_seed(3)
    return dataclasses.replace(GROUPED, dtype=request.param)


def both(config):
    return (make_layer_ops(name, config, DEVICE, MAX_POSITIONS) for name in ("triton", "torch"))


def values(config, *shape):
    return torch.randn(shape).to(device=DEVICE, dtype=config.torch_dtype)


def close(found, expected):
    """float32 within its rounding; bfloat16 within two units of its last place (the kernels round once, not twice)."""
    bound = 2e-6 if found.dtype == torch.float32 else 2**-7
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


@runs_kernels
def test_norms(config):
    fused, torch_ops = both(config)
    hidden, update, weight = values(config, 5, 48), values(config, 5, 48), values(config, 48)
    close(fused.norm(hidden, weight), torch_ops.norm(hidden, weight))
    expected_sum, expected = torch_ops.add_norm(update, hidden, weight)
    added, normed = fused.add_norm(update, hidden, weight)
    assert torch.equal(added, expected_sum), "one rounded addition on both sides"
    assert added is hidden, "in the memory that it was given"
    close(normed, expected)


@runs_kernels
def test_activation(config):
    fused, torch_ops = both(config)
    gate_up = values(config, 3, 80)
    close(fused.activate(gate_up), torch_ops.activate(gate_up))


class Written(TorchAttention):
    """Sees the rotated queries and keeps them: attention itself is tested elsewhere."""

    def __init__(self, slots):
        super().__init__()
        self._slots = slots

    def slots(self, metadata):
        return self._slots

    def attend(self, query, key_cache, value_cache, metadata):
        return query

    def forward(self, query, key, value, key_cache, value_cache, metadata):
        slots = self._slots.tolist()
        for token, slot in enumerate(slots):
            if slot >= 0:
                key_cache.view(-1, *key.shape[1:])[slot] = key[token]
                value_cache.view(-1, *key.shape[1:])[slot] = value[token]
        return query


@runs_kernels
@pytest.mark.parametrize("heads", [(6, 2), (5, 5)], ids=str)
def test_rotation_and_cache_write(config, heads):
    # GIVEN tokens at scattered positions and slots, the first and the last of each, and one token of padding
    config = dataclasses.replace(config, num_attention_heads=heads[0], num_key_value_heads=heads[1])
    fused, torch_ops = both(config)
    qkv = values(config, 4, (heads[0] + 2 * heads[1]) * 16)
    positions = torch.tensor([0, 7, MAX_POSITIONS - 1, 3], device=DEVICE)
    backend = Written(torch.tensor([BLOCKS * BLOCK - 1, 0, 13, -1], device=DEVICE))
    results = []
    for ops in (fused, torch_ops):
        cache = LayerKV(*(torch.full((BLOCKS, BLOCK, heads[1], 16), 9.0).to(qkv) for _ in range(2)))
        # WHEN they are rotated and written
        query = ops.attend(qkv.clone(), ops.rotation(positions), cache, backend, None)
        results.append((query, cache))
    # THEN queries and caches agree, values are copied exactly, and no other slot was touched
    (query, cache), (expected_query, expected_cache) = results
    close(query, expected_query)
    close(cache.key, expected_cache.key)
    assert torch.equal(cache.value, expected_cache.value)
    assert int((cache.key != 9.0).any(-1).any(-1).sum()) == 3


@runs_kernels
def test_a_whole_model_agrees(tiny_weights):
    from stepscope.runner.attention.triton_backend import TritonAttention
    from stepscope.runner.models.config import NAMED
    from stepscope.runner.models.kv_cache import KVCache
    from stepscope.runner.models.llama import LlamaModel

    shape = dataclasses.replace(NAMED["tiny"], num_hidden_layers=1)
    weights = dataclasses.replace(tiny_weights, layers=tiny_weights.layers[:1])
    if ON_GPU:
        weights = _on_gpu(weights)
    ids, positions = torch.tensor([5, 6, 7, 8, 0], device=DEVICE), torch.tensor([0, 1, 2, 0, 0], device=DEVICE)
    found = []
    for name, backend in (("triton", TritonAttention()), ("torch", TorchAttention())):
        model = LlamaModel(shape, weights, make_layer_ops(name, shape, DEVICE, MAX_POSITIONS))
        caches = (torch.zeros((BLOCKS, BLOCK, 2, 16), device=DEVICE) for _ in range(2))
        cache = KVCache((LayerKV(*caches),), BLOCKS)
        metadata = [backend.build(common())] * shape.num_hidden_layers
        found.append(model.forward(ids, positions, cache, backend, metadata))
    torch.testing.assert_close(found[0][:4], found[1][:4], rtol=2e-5, atol=2e-5)
    assert bool(found[0].isfinite().all()), "padding too"


def common():
    """Rows of three tokens and one, and a token of padding."""
    starts, lens = np.array([0, 3, 4], np.int32), np.array([3, 1], np.int32)
    device = [starts, lens, np.array([[1, 0], [2, 0]], np.int32), np.array([4, 5, 6, 8, -1]), np.array([0, 1, 2, 0, 0])]
    return CommonAttentionMetadata(
        2, 2, 5, 4, 3, 3, *(torch.from_numpy(array).to(DEVICE) for array in device), starts, lens, np.zeros(2, "?")
    )


def _on_gpu(weights):
    layers = tuple(
        dataclasses.replace(layer, **{f.name: getattr(layer, f.name).cuda() for f in dataclasses.fields(layer)})
        for layer in weights.layers
    )
    outer = {name: getattr(weights, name).cuda() for name in ("embedding", "final_norm", "lm_head")}
    return dataclasses.replace(weights, layers=layers, **outer)


def test_torch_attention_keeps_torch_operators():
    assert isinstance(make_layer_ops("torch", SHAPE, torch.device("cpu"), 8), TorchOps)


@pytest.mark.parametrize("width", [8, 24, 96])
def test_heads_that_no_tile_holds_are_refused(width):
    shape = dataclasses.replace(SHAPE, head_dim=width)
    with pytest.raises(UsageError, match=f"power of two from 16 on, and model odd has {width}; use attention=torch"):
        make_layer_ops("triton", shape, torch.device("cpu"), 8)
