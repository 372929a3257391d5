"""Paged attention against the GPU's own rates: decode by bytes of keys and values, prefill by causal products."""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from kernel_timing import DEVICE, replays_us
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.triton_backend import (
    Tiles,
    TritonAttention,
    attend_mixed,
    attend_single,
    decode_tiles,
    mixed_tiles,
    splits_for,
)
from triton.errors import TritonError

BLOCK, KV_HEADS, GROUP = 16, 8, 4
CONTEXTS = (4096, 8192, 16384, 32768)
PREFILLS = (((1, 8192, 8192),), ((4, 2048, 2048),), ((1, 2048, 32768),), ((63, 1, 4096), (1, 2048, 4096)))
"""A prompt of 8k, four of 2k, a chunk of 2k behind 30k, and a chunk beside 63 decodes."""
SPLIT_BATCHES = ((1, 512), (1, 32768), (8, 4096), (32, 4096), (64, 512))
"""(rows, context) that the number of splits is tried on."""
WORKERS = 14


@dataclass(frozen=True)
class Batch:
    """Rows as (how many, new tokens of each, length of each); the new tokens come last, pages lie in random order."""

    rows: tuple[tuple[int, int, int], ...]
    head_dim: int

    def each(self) -> list[tuple[int, int]]:
        """(new tokens, length) of every row."""
        return [(queries, length) for count, queries, length in self.rows for _ in range(count)]

    def tensors(self, seed: int = 0) -> tuple[CommonAttentionMetadata, torch.Tensor, torch.Tensor, torch.Tensor]:
        generator = torch.Generator(DEVICE).manual_seed(seed)
        queries, lens = (np.array(column, np.int32) for column in zip(*self.each(), strict=True))
        count, tokens, width = len(lens), int(queries.sum()), -(-int(lens.max()) // BLOCK)
        ids = 1 + torch.randperm(count * width, generator=generator, device=DEVICE)
        shape = (1 + count * width, BLOCK, KV_HEADS, self.head_dim)
        keys, values = (_random(shape, generator) for _ in range(2))
        query = _random((tokens, KV_HEADS * GROUP, self.head_dim), generator)
        starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
        none = torch.empty(0, dtype=torch.int64, device=DEVICE)
        common = CommonAttentionMetadata(
            count, count, tokens, tokens, int(queries.max()), int(lens.max()), torch.from_numpy(starts).to(DEVICE),
            torch.from_numpy(lens).to(DEVICE), ids.to(torch.int32).view(count, width), none, none, starts, lens,
            np.zeros(count, "?"), uniform=bool((queries == 1).all()),
        )  # fmt: skip
        return common, query, keys, values

    @property
    def kv_bytes(self) -> int:
        return sum(count * length for count, _, length in self.rows) * KV_HEADS * self.head_dim * 2 * 2

    @property
    def flops(self) -> int:
        """Two products of each causal (query, key) pair."""
        pairs = sum(count * (new * length - new * (new - 1) // 2) for count, new, length in self.rows)
        return 4 * pairs * KV_HEADS * GROUP * self.head_dim


def _random(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    out = torch.empty(tuple(shape), dtype=torch.bfloat16, device=DEVICE)
    return out.normal_(generator=generator)


def reference_error(batch: Batch, out: torch.Tensor, tensors: Any, queries: int = 64) -> float:
    """Largest |out - float32 attention| of a query as a share of its norm, over the last queries of two rows."""
    common, query, keys, values = tensors
    worst, rows = 0.0, batch.each()
    for row in {0, len(rows) - 1}:
        new, length = rows[row]
        blocks = common.block_table[row].long()
        key, value = (cache[blocks].flatten(0, 1)[:length].float() for cache in (keys, values))
        count, end = min(queries, new), int(common.query_start_loc_cpu[row + 1])
        grouped = query[end - count : end].float().unflatten(1, (KV_HEADS, GROUP))
        scores = torch.einsum("qkgd,skd->kgqs", grouped, key) * batch.head_dim**-0.5
        hidden = torch.arange(length, device=DEVICE) > torch.arange(length - count, length, device=DEVICE)[:, None]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        expected = torch.einsum("kgqs,skd->qkgd", weights, value).flatten(1)
        difference = (out[end - count : end].float().flatten(1) - expected).norm(dim=1) / expected.norm(dim=1)
        worst = max(worst, float(difference.max()))
    return worst


def measure_batch(batch: Batch) -> dict[str, Any]:
    """The backend as a model calls it, with its own tiles."""
    tensors = batch.tensors()
    us = replays_us(lambda: _attend(*tensors))
    seconds, uniform = statistics.median(us) * 1e-6, tensors[0].uniform
    tiles = decode_tiles(tensors[1]) if uniform else mixed_tiles(tensors[1])
    return {
        "rows": batch.rows, "head_dim": batch.head_dim, "us": us, "tiles": asdict(tiles),
        "splits": splits_for(tensors[0].num_reqs, KV_HEADS) if uniform else None,
        "kv_bytes": batch.kv_bytes, "bytes_per_s": batch.kv_bytes / seconds,
        "flops": batch.flops, "flops_per_s": batch.flops / seconds,
        "error": reference_error(batch, _attend(*tensors), tensors),
    }  # fmt: skip


def decode(rate: float) -> list[dict[str, Any]]:
    """64 rows of one query; shares are of `rate`, the bytes a second of a copy."""
    batches = [Batch(((64, 1, context),), head_dim) for head_dim in (128, 64) for context in CONTEXTS]
    rows = [measure_batch(batch) for batch in batches]
    return [row | {"share_of_copy": row["bytes_per_s"] / rate} for row in rows]


def prefill(rate: float) -> list[dict[str, Any]]:
    """Prompts, chunks behind a context, and a chunk beside decodes; shares are of `rate`, operations a second."""
    batches = [Batch(rows, head_dim) for head_dim in (128, 64) for rows in PREFILLS]
    rows = [measure_batch(batch) for batch in batches]
    return [row | {"share_of_matmul": row["flops_per_s"] / rate} for row in rows]


def _attend(common: CommonAttentionMetadata, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
    backend = TritonAttention()
    return backend.attend(query, keys, values, backend.build(common))


def choices() -> list[tuple[str, int, Tiles, int]]:
    """(kernel, head_dim, tiles, splits) of the sweep."""
    found = []
    for head_dim, kv, warps, stages in itertools.product((64, 128), (32, 64, 128), (2, 4, 8), (3, 5, 7)):
        if warps < 8 or kv > 32:
            found.append(("decode", head_dim, Tiles(16, kv, warps, stages), 1))
    shapes = ((64, 4), (128, 4), (128, 8))
    for head_dim, (rows, warps), kv, stages in itertools.product((64, 128), shapes, (64, 128), (2, 3, 4, 5)):
        found.append(("mixed", head_dim, Tiles(rows, kv, warps, stages), 0))
    return found


def sweep() -> list[dict[str, Any]]:
    """Every choice, then the number of splits with the backend's tiles: where the backend's constants come from."""
    compile_all(choices() + [(*choice, 16) for choice in _split_choices()])
    results = []
    for head_dim in (64, 128):
        cases = {
            "decode": [Batch(((64, 1, context),), head_dim) for context in (512, 4096)],
            "mixed": [Batch(rows, head_dim) for rows in (PREFILLS[0], PREFILLS[3])],
        }
        for kernel, batches in cases.items():
            data = [batch.tensors() for batch in batches]
            for choice in choices():
                if choice[:2] == (kernel, head_dim):
                    results.append(_measure_choice(choice, batches, data))
    for choice in _split_choices():
        for rows, context in SPLIT_BATCHES:
            batch = Batch(((rows, 1, context),), choice[1])
            data = [batch.tensors()]
            results += [_measure_choice((*choice, splits), [batch], data) for splits in (1, 2, 4, 8, 16, 32, 64)]
    return results


def _split_choices() -> list[tuple[str, int, Tiles]]:
    shapes = [(head_dim, torch.empty((1, 1, head_dim), dtype=torch.bfloat16)) for head_dim in (64, 128)]
    return [("splits", head_dim, decode_tiles(query)) for head_dim, query in shapes]


def _measure_choice(choice: tuple[str, int, Tiles, int], batches: Any, data: Any) -> dict[str, Any]:
    kernel, head_dim, tiles, splits = choice
    row: dict[str, Any] = {"kernel": kernel, "head_dim": head_dim, "tiles": asdict(tiles), "splits": splits}
    try:
        times = [statistics.median(replays_us(lambda item=item: _call(choice, item), 8)) for item in data]
    except (TritonError, RuntimeError) as error:  # out of shared memory: that is an answer too
        return row | {"us": [], "refused": type(error).__name__}
    return row | {"us": times, "batches": [batch.rows for batch in batches]}


def _call(choice: tuple[str, int, Tiles, int], item: Any) -> torch.Tensor:
    (kernel, _, tiles, splits), (common, query, keys, values) = choice, item
    if kernel != "mixed":
        return attend_single(query, keys, values, common, tiles, splits)
    return attend_mixed(query, keys, values, common, tiles)


def compile_all(wanted: Sequence[tuple[str, int, Tiles, int]]) -> None:
    """Compile in other processes, which leave their work in Triton's cache: one alone takes seconds for each."""
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.map(_compile, [list(wanted[i::WORKERS]) for i in range(WORKERS)], chunksize=1)


def _compile(wanted: list[tuple[str, int, Tiles, int]]) -> None:
    for choice in wanted:
        kernel, head_dim = choice[:2]
        batch = Batch(((2, 1, 40),) if kernel != "mixed" else ((1, 40, 40),), head_dim)
        try:
            _call(choice, batch.tensors())
        except (TritonError, RuntimeError):
            continue  # reported where it is measured
