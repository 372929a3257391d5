"""What attention adds to graphs of each size: which rows are real, and what is subtracted from what."""

from itertools import count

import torch
from stepscope.experiments.calibrate.sized import OneRow, sized_samples
from stepscope.experiments.calibrate.stack import Stack, copied_weights
from stepscope.runner.attention.torch_backend import TorchAttention
from stepscope.runner.models.config import NAMED
from stepscope.runner.models.llama import LlamaModel

TINY = NAMED["tiny"]
CPU = torch.device("cpu")


class Seen(TorchAttention):
    """Attends as the reference does, and remembers the batches."""

    def __init__(self) -> None:
        super().__init__(32)
        self.batches = []

    def build(self, common):
        self.batches.append(common)
        return super().build(common)


class Unseen(Seen):
    """Leaves attention out."""

    def forward(self, query, key, value, key_cache, value_cache, metadata):
        return query.contiguous()


def the_stack(backend) -> Stack:
    return Stack(CPU, LlamaModel(TINY, copied_weights(TINY, CPU)), backend, 8)


def test_one_row_is_real_and_the_others_read_and_write_nothing() -> None:
    # GIVEN a decode of one row with 20 positions in a graph of 3
    backend = Seen()
    one = OneRow(the_stack(Unseen()), backend, 8, 20)
    before = [layer.key.clone() for layer in one._cache.layers]
    hidden = one.forward(3)
    (common,) = backend.batches
    assert hidden.shape == (3, TINY.hidden_size)
    assert common.seq_lens.tolist() == [20, 0, 0]
    assert common.seq_lens_cpu.tolist() == [20, 0, 0]
    assert common.positions.tolist() == [19, 0, 0]
    # THEN the cache was written at one place, the real row's last position
    table, slots = common.block_table[0].tolist(), common.slot_mapping.tolist()
    assert slots == [table[1] * 16 + 3, -1, -1]
    for layer, old in zip(one._cache.layers, before, strict=True):
        changed = (layer.key != old).flatten(0, 1).any(dim=(-1, -2)).nonzero().flatten().tolist()
        assert changed == [slots[0]]


def test_the_figure_is_the_graph_with_attention_less_the_graph_without(bench, monkeypatch) -> None:
    # GIVEN a bench that times every replay by who is replayed, a little longer every time
    whole, bare, ticks = Seen(), Unseen(), count()
    stack = the_stack(bare)
    monkeypatch.setattr(bench, "graph", lambda call: _Graph(call, whole, bare))
    monkeypatch.setattr(bench, "device_ns", lambda call, **how: 1000.0 * call() + next(ticks))
    # WHEN two sizes are measured THEN each has the difference of its own two graphs, the middle one of the rounds
    found = sized_samples(bench, stack, whole, (1, 4), 32)
    assert [(sample.size, sample.kv_tokens) for sample in found] == [(1, 32), (4, 32)]
    assert [round(sample.ns, -1) for sample in found] == [9000, 9000]


class _Graph:
    """Ten for a graph with attention, one for a graph without."""

    def __init__(self, call, whole, bare) -> None:
        before = len(whole.batches), len(bare.batches)
        call()
        after = len(whole.batches), len(bare.batches)
        self._worth = 10 if after[0] > before[0] else 1
        assert sum(after) == sum(before) + 1

    def replay(self) -> int:
        return self._worth
