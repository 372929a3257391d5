"""The decoder against Hugging Face with metadata made by hand: no state, no scheduler, no device in between."""

import dataclasses
import json
import os

import numpy as np
import pytest
import torch
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.kv_cache import KVCache, LayerKV
from stepscope.runner.models.llama import LlamaModel
from stepscope.runner.models.rope_scaling import Llama3Scaling
from stepscope.runner.models.weights import random_weights

BLOCK = 4
TINY = NAMED["tiny"]


def empty_cache(config, num_blocks):
    shape = (num_blocks, BLOCK, config.num_key_value_heads, config.head_dim)
    layers = [LayerKV(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_hidden_layers)]
    return KVCache(tuple(layers), num_blocks)


class HandDriver:
    """Requests whose blocks lie scattered in the cache, one flat forward for any mix of chunks."""

    def __init__(self, model, prompts, longest):
        self.model, self.backend = model, TorchAttention()
        width = -(-longest // BLOCK)
        ids = np.random.default_rng(1).permutation(np.arange(1, 1 + width * len(prompts)))
        self.table = ids.reshape(len(prompts), width).astype(np.int32)
        self.cache = empty_cache(model.config, 1 + width * len(prompts))
        self.tokens = [list(prompt) for prompt in prompts]
        self.computed = np.zeros(len(prompts), dtype=np.int32)

    def forward(self, queries, pad_tokens=0, pad_rows=0):
        """Hidden states of queries[i] more tokens of request i."""
        queries = np.array(queries, dtype=np.int32)
        rows = np.repeat(np.arange(len(queries)), queries)
        starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
        positions = self.computed[rows] + np.arange(len(rows)) - starts[rows]
        ids = np.array([self.tokens[row][position] for row, position in zip(rows, positions, strict=True)])
        slots = self.table[rows, positions // BLOCK].astype(np.int64) * BLOCK + positions % BLOCK
        self.computed += queries
        padded = [np.pad(values, (0, pad_tokens)) for values in (ids, positions.astype(np.int64))]
        slots = np.pad(slots, (0, pad_tokens), constant_values=-1)
        starts = np.pad(starts, (0, pad_rows), mode="edge")
        seq_lens = np.pad(np.where(queries > 0, self.computed, 0), (0, pad_rows)).astype(np.int32)
        table = np.pad(self.table, ((0, pad_rows), (0, 0)))
        common = CommonAttentionMetadata(
            len(seq_lens), len(queries), len(slots), len(rows), int(queries.max()), int(seq_lens.max()),
            *(torch.from_numpy(values) for values in (starts, seq_lens, table, slots, padded[1])),
            starts, seq_lens, np.zeros(len(seq_lens), dtype=bool),
        )  # fmt: skip
        ids, positions = (torch.from_numpy(values) for values in padded)
        metadata = [self.backend.build(common)] * self.model.config.num_hidden_layers
        return self.model.forward(ids, positions, self.cache, self.backend, metadata)


def hf_logits(model, tokens):
    with torch.inference_mode():
        return model(torch.tensor([tokens]), use_cache=False).logits[0]


def prompts_of(*lengths):
    rng = np.random.default_rng(3)
    return [rng.integers(0, TINY.vocab_size, n).tolist() for n in lengths]


SCALED = dataclasses.replace(
    TINY, name="scaled", tie_word_embeddings=True, rope_theta=500000.0, rope_scaling=Llama3Scaling(32.0, 1.0, 4.0, 64)
)


@pytest.mark.parametrize("config", [TINY, SCALED], ids=lambda config: config.name)
def test_logits_of_every_position_equal_hugging_face(config, to_hf):
    # GIVEN three prompts, one of a single token
    weights = random_weights(config, 0, torch.device("cpu"))
    model, prompts = LlamaModel(config, weights), prompts_of(13, 1, 90)
    # WHEN they run as one flat stream
    driver = HandDriver(model, prompts, 90)
    logits = model.logits(driver.forward([13, 1, 90]))
    # THEN each position has Hugging Face's logits up to the rounding of float32
    hf = to_hf(config, weights)
    expected = torch.cat([hf_logits(hf, prompt) for prompt in prompts])
    assert float((logits - expected).abs().max()) < 2e-5


def test_chunks_decodes_and_padding_change_nothing(tiny_weights):
    # GIVEN the hidden states of three prompts computed whole
    model, prompts = LlamaModel(TINY, tiny_weights), prompts_of(30, 12, 5)
    whole = HandDriver(model, prompts, 30).forward([30, 12, 5]).split([30, 12, 5])
    # WHEN they are cut into chunks, decode-like single tokens and padded steps
    driver, parts = HandDriver(model, prompts, 30), [[], [], []]
    for queries, pads in [((7, 1, 5), (3, 2)), ((1, 10, 0), (0, 0)), ((21, 1, 0), (10, 1)), ((1, 0, 0), (7, 7))]:
        hidden = driver.forward(queries, *pads)[: sum(queries)]
        for row, part in enumerate(hidden.split(list(queries))):
            parts[row].append(part)
    # THEN every position has the same hidden state
    for row in range(3):
        assert float((torch.cat(parts[row]) - whole[row]).abs().max()) < 2e-5


def test_the_stored_texts_are_hugging_faces(hugging_face_texts, texts_file):
    """STEPSCOPE_TEXTS=1 writes them anew, when the requests or the weights have changed."""
    if os.environ.get("STEPSCOPE_TEXTS"):
        parts = []
        for name, texts in hugging_face_texts.items():
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(row).replace(' ', '')}" for key, row in texts.items())
            parts.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
        texts_file.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    assert json.loads(texts_file.read_text()) == hugging_face_texts


def test_the_reference_is_worth_comparing_with(reference):
    distinct = [len(set(tokens)) for tokens in reference.outputs.values()]
    assert len(distinct) == 32
    assert min(distinct) >= 20


def test_bfloat16_runs_and_stays_close_to_float32(tiny_weights):
    config = dataclasses.replace(TINY, dtype="bfloat16", init_std=0.02)
    wide = dataclasses.replace(config, dtype="float32")
    hidden = []
    for shape in (config, wide):
        model = LlamaModel(shape, random_weights(shape, 0, torch.device("cpu")))
        driver = HandDriver(model, prompts_of(20), 20)
        driver.cache = KVCache(
            tuple(LayerKV(kv.key.to(shape.torch_dtype), kv.value.to(shape.torch_dtype)) for kv in driver.cache.layers),
            driver.cache.num_blocks,
        )  # fmt: skip
        hidden.append(driver.forward([20]).float())
    assert float((hidden[0] - hidden[1]).abs().mean()) < 0.02
