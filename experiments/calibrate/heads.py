"""What stands around the stack: slot mapping, the gather of hidden states, LM head, greedy sampling; and ceilings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ...runner.models.llama import LlamaModel
from .bench import Bench
from .raw import Ceilings, HeadSample

ROWS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
BLOCK_SIZE, WIDTH, CAPACITY = 16, 512, 2048
"""Of the block table and the slot buffer: the runner's defaults for 8192 tokens a request."""


def head_samples(bench: Bench, model: LlamaModel, rows: Sequence[int] = ROWS) -> dict[str, tuple[HeadSample, ...]]:
    """Device ns by kind of work and rows, each as the runner does it."""
    config = model.config
    hidden = torch.empty((4 * max(rows), config.hidden_size), dtype=config.torch_dtype, device=bench.device).normal_()
    sampled = torch.empty(max(rows), dtype=torch.int32, device=bench.device)
    samples: dict[str, list[HeadSample]] = {}
    for n in rows:
        picked, index = hidden[:n], torch.arange(n, device=bench.device) * 3
        logits = model.logits(picked)
        calls: dict[str, Callable[[], object]] = {
            "lm_head": partial(model.logits, picked),
            "sample": partial(_greedy, logits, sampled[:n]),
            "gather_hidden": partial(hidden.index_select, 0, index),
            "slot_mapping": slot_mapping_call(bench, n),
        }
        for kind, call in calls.items():
            samples.setdefault(kind, []).append(HeadSample(n, bench.device_ns(call)))
    return {kind: tuple(points) for kind, points in samples.items()}


def _greedy(logits: torch.Tensor, sampled: torch.Tensor) -> None:
    """As the sampler does it for requests without a temperature."""
    sampled.copy_(logits.argmax(dim=-1))


def slot_mapping_call(bench: Bench, rows: int) -> Callable[[], object]:
    """The runner's kernel for `rows` requests of one token."""
    from ...runner.inputs.slot_kernel import SlotKernel

    starts = torch.arange(rows + 1, device=bench.device, dtype=torch.int32)
    positions = torch.full((rows,), 100, device=bench.device, dtype=torch.int64)
    table = torch.ones((rows, WIDTH), device=bench.device, dtype=torch.int32)
    slots = torch.empty(max(CAPACITY, rows), device=bench.device, dtype=torch.int64)
    last = torch.empty(rows, device=bench.device, dtype=torch.int64)
    kernel = SlotKernel(starts, positions, table, (slots, last), BLOCK_SIZE)
    return lambda: kernel(rows, rows)


def ceilings(bench: Bench, side: int = 8192, copy_bytes: int = 1 << 30) -> Ceilings:
    """Peak rates as this GPU reaches them on random data."""
    a, b = (torch.empty((side, side), dtype=torch.bfloat16, device=bench.device).normal_() for _ in range(2))
    source = torch.zeros(copy_bytes, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    product_ns = bench.device_ns(lambda: a @ b, inner=5)
    copy_ns = bench.device_ns(lambda: target.copy_(source), inner=5)
    return Ceilings(
        matmul_flops_per_s=2 * side**3 / product_ns * 1e9, device_copy_bytes_per_s=2 * copy_bytes / copy_ns * 1e9
    )
