"""What fused kernels change of a captured decode forward: torch's operators against Triton's, and what is left where.

python benchmarks/fused_layers.py --out DIR    needs a GPU; about a minute
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import time
from collections import defaultdict
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import triton
from stepscope.runner.attention.metadata import CommonAttentionMetadata
from stepscope.runner.attention.triton_backend import TritonAttention
from stepscope.runner.config import RunnerConfig
from stepscope.runner.kv_groups import resolve_groups
from stepscope.runner.models.config import NAMED, ModelConfig
from stepscope.runner.models.kv_cache import allocate_group_caches
from stepscope.runner.models.layer_ops import TorchOps, make_layer_ops
from stepscope.runner.models.llama import LlamaModel
from stepscope.runner.models.weights import DecoderWeights, LayerWeights

SMALL = ModelConfig(  # the shape of real vLLM's measurement on this GPU
    name="small", vocab_size=32000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16,
    num_attention_heads=16, num_key_value_heads=8, head_dim=64, dtype="bfloat16",
)  # fmt: skip
CASES = [(NAMED["llama-1b"], n, kv) for n, kv in ((1, 512), (8, 512), (64, 0), (64, 512), (64, 4096), (256, 512))]
CASES += [(SMALL, 64, 512)]
BLOCK, REPLAYS = 16, 40
DEVICE = torch.device("cuda")


class NoAttention(TritonAttention):
    """Queries pass: what is left is the stack that the calibration timed."""

    def attend(self, query, key_cache, value_cache, metadata):
        return query

    def forward(self, query, key, value, key_cache, value_cache, metadata):
        return query


def weights_of(config: ModelConfig) -> DecoderWeights:
    """Random numbers of the right size, drawn on the GPU."""

    def matrix(rows, columns):
        return (torch.rand((rows, columns), device=DEVICE) - 0.5).mul_(0.07).to(config.torch_dtype)

    def norm():
        return torch.ones(config.hidden_size, device=DEVICE, dtype=config.torch_dtype)

    hidden, width = config.hidden_size, config.head_dim
    rows = (config.num_attention_heads + 2 * config.num_key_value_heads) * width
    layers = tuple(
        LayerWeights(
            norm(), matrix(rows, hidden), matrix(hidden, config.num_attention_heads * width), norm(),
            matrix(2 * config.intermediate_size, hidden), matrix(hidden, config.intermediate_size),
        )
        for _ in range(config.num_hidden_layers)
    )
    embedding = matrix(config.vocab_size, hidden)
    return DecoderWeights(embedding, layers, norm(), embedding)


def decode_batch(n: int, kv: int) -> CommonAttentionMetadata:
    """n decodes, each of kv positions (0: the attention is left out, one position is enough)."""
    kv = max(kv, 1)
    blocks = -(-kv // BLOCK)
    table = torch.arange(1, 1 + n * blocks, dtype=torch.int32, device=DEVICE).view(n, blocks)
    last = torch.full((n,), kv - 1, dtype=torch.int64, device=DEVICE)
    starts, lens = np.arange(n + 1, dtype=np.int32), np.full(n, kv, np.int32)
    return CommonAttentionMetadata(
        n, n, n, n, 1, kv, torch.from_numpy(starts).to(DEVICE), torch.from_numpy(lens).to(DEVICE), table,
        table[:, -1].to(torch.int64) * BLOCK + (kv - 1) % BLOCK, last, starts, lens, np.zeros(n, bool), uniform=True,
    )  # fmt: skip


def capture(forward):
    for _ in range(3):
        forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward()
    return graph


def replay_us(graph) -> list[float]:
    """Device time of each of REPLAYS replays, back to back."""
    for _ in range(5):
        graph.replay()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(events)]


def eager_host_us(forward) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for _ in range(10):
        forward()
    spent = time.perf_counter_ns() - began
    torch.cuda.synchronize()
    return spent / 1e4


def kernels_of(graph) -> list[tuple[str, int, float]]:
    """(name, launches, device time in us) of one replay, the longest first; empty where no profiler is to be had."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
    found = defaultdict(list)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name].append(event.time_range.elapsed_us())
    rows = [(name[:90], len(times) // 3, round(sum(times) / 3, 1)) for name, times in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def measure(config: ModelConfig, weights: DecoderWeights, n: int, kv: int) -> dict:
    common = decode_batch(n, kv)
    door = SimpleNamespace(empty=lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=DEVICE))
    groups, layers = resolve_groups(RunnerConfig(block_size=BLOCK)), [0] * config.num_hidden_layers
    cache = allocate_group_caches(door, config, 1 + common.block_table.numel(), groups, layers)
    ids, positions = torch.zeros(n, dtype=torch.int64, device=DEVICE), common.positions
    backend = TritonAttention() if kv else NoAttention()
    found = {"model": config.name, "rows": n, "kv": kv}
    for name in ("torch", "triton"):
        ops = make_layer_ops("triton", config, DEVICE, 8192) if name == "triton" else TorchOps(config, DEVICE)
        model = LlamaModel(config, weights, ops)
        metadata = backend.build(common)

        @torch.inference_mode()
        def forward(model=model, metadata=metadata):
            return model.forward(ids, positions, cache, backend, (metadata,) * config.num_hidden_layers)

        graph = capture(forward)
        found[f"{name}_graph_us"] = [round(value, 1) for value in replay_us(graph)]
        found[f"{name}_eager_host_us"] = round(eager_host_us(forward), 1)
        if name == "triton" and n == 64:
            found["kernels"] = kernels_of(graph)
    head = capture(torch.inference_mode()(lambda: model.logits(forward())))
    found["with_lm_head_us"] = [round(value, 1) for value in replay_us(head)]
    matrices = (m for layer in weights.layers for m in (layer.qkv, layer.output, layer.gate_up, layer.down))
    found["bytes"] = {
        "layers": sum(matrix.nbytes for matrix in matrices), "lm_head": weights.lm_head.nbytes,
        "kv": 2 * n * kv * config.num_key_value_heads * config.head_dim * 2 * config.num_hidden_layers,
    }
    return found


def copy_bytes_per_s() -> float:
    """Read plus written bytes of a copy kernel over 2 GiB: the bandwidth that all shares are of.

    A kernel and not a memory copy: in a graph that is a copy engine's work, which reached 2.7 TB/s here.
    """
    source = torch.empty(1 << 29, dtype=torch.float32, device=DEVICE)
    target = torch.empty_like(source)
    graph = capture(lambda: torch.neg(source, out=target))
    return 2 * source.nbytes / (statistics.median(replay_us(graph)) * 1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    rate = copy_bytes_per_s()
    results, last, weights = [], None, None
    for config, n, kv in CASES:
        if config is not last:
            last, weights = config, weights_of(config)
        results.append(measure(config, weights, n, kv))
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    facts = {
        "gpu": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__, "triton": triton.__version__,
        "date": date.today().isoformat(), "command": "python benchmarks/fused_layers.py --out DIR",
        "copy_bytes_per_s": rate, "cases": results,
    }
    (out / "fused_layers.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"device copy {rate / 1e12:.2f} TB/s")
    print("model      rows   kv | graph us: torch  triton  +head | host us eager: torch triton | bytes/rate us  ratio")
    for row in results:
        torch_us, triton_us, head_us = (
            statistics.median(row[name]) for name in ("torch_graph_us", "triton_graph_us", "with_lm_head_us")
        )
        least = sum(row["bytes"].values()) / rate * 1e6
        print(
            f"{row['model']:9} {row['rows']:5} {row['kv']:5} | {torch_us:15.0f} {triton_us:7.0f} {head_us:6.0f} |"
            f" {row['torch_eager_host_us']:20.0f} {row['triton_eager_host_us']:6.0f} |"
            f" {least:13.0f} {head_us / least:6.2f}"
        )
    for row in results:
        if row["kv"] == 512 and "kernels" in row:
            print(row["model"], *(f"\n  {us:8.1f} us {count:4} {name}" for name, count, us in row["kernels"][:12]))


if __name__ == "__main__":
    main()
