"""The tiny decoder in Hugging Face's clothes, and 32 requests with their greedy answers by it."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.weights import random_weights
from stepscope.workloads.requests import Request

NUM_REQUESTS = 32
NUM_OUTPUTS = 32
LONGEST_PROMPT = 120


def to_hugging_face(config, weights):
    """A transformers LlamaForCausalLM with our weights."""
    transformers = pytest.importorskip("transformers")
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    scaling = config.rope_scaling
    if scaling is not None:
        rope |= {"rope_type": "llama3"} | {name: getattr(scaling, name) for name in scaling.__slots__}
    names = (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
        "rms_norm_eps tie_word_embeddings"
    )
    shape = {name: getattr(config, name) for name in names.split()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a library that is not under test
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                **shape, rope_parameters=rope, max_position_embeddings=8192,
                bos_token_id=None, eos_token_id=None, pad_token_id=None,
            )
        ).eval()
    model.load_state_dict(_state_dict(config, weights))
    return model


def _state_dict(config, weights):
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    state = {
        "model.embed_tokens.weight": weights.embedding,
        "model.norm.weight": weights.final_norm,
        "lm_head.weight": weights.lm_head,
    }
    for i, layer in enumerate(weights.layers):
        query, key, value = layer.qkv.split([heads * width, kv_heads * width, kv_heads * width])
        gate, up = layer.gate_up.chunk(2)
        parts = {
            "self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value,
            "self_attn.o_proj": layer.output, "mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": layer.down,
            "input_layernorm": layer.attention_norm, "post_attention_layernorm": layer.mlp_norm,
        }
        state |= {f"model.layers.{i}.{name}.weight": tensor for name, tensor in parts.items()}
    return state


def hf_greedy(model, prompts, num_outputs):
    """Greedy continuations by `generate`, prompts padded on the left and masked there."""
    longest = max(len(prompt) for prompt in prompts)
    tokens = torch.zeros((len(prompts), longest), dtype=torch.int64)
    mask = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.from_numpy(prompt.astype(np.int64))
        mask[row, longest - len(prompt) :] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model.generate(
            tokens, attention_mask=mask, max_new_tokens=num_outputs, do_sample=False, pad_token_id=0, use_cache=True
        )
    return [tuple(row) for row in out[:, longest:].tolist()]


@dataclass(frozen=True)
class Reference:
    requests: tuple
    outputs: dict


@pytest.fixture(scope="session")
def to_hf():
    return to_hugging_face


@pytest.fixture(scope="session")
def tiny_weights():
    return random_weights(NAMED["tiny"], 0, torch.device("cpu"))


@pytest.fixture(scope="session")
def reference(tiny_weights):
    config = NAMED["tiny"]
    lengths = np.linspace(3, LONGEST_PROMPT, NUM_REQUESTS).astype(int)
    np.random.default_rng(20).shuffle(lengths)
    requests = [Request(f"r{i:02d}", int(n), NUM_OUTPUTS, config.vocab_size) for i, n in enumerate(lengths)]
    prompts = [request.prompt_token_ids() for request in requests]
    outputs = hf_greedy(to_hugging_face(config, tiny_weights), prompts, NUM_OUTPUTS)
    return Reference(tuple(requests), {request.req_id: out for request, out in zip(requests, outputs, strict=True)})
