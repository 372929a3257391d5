"""Measures what the `sim` device needs to know of a GPU; prints a short table and writes the raw figures as JSON.

    python benchmarks/calibrate/measure.py --out DIR

Every figure is a median. Device times of copies come from CUPTI (torch.profiler), those of kernels from events around
back-to-back calls on a busy stream, latencies from CUPTI's host and device records of one launch.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from stack import Shape, Stack
from timing import cupti, device_ns, graph_of, host_ns

KIB, MIB = 1 << 10, 1 << 20
COPY_SIZES = [4, 64, 256, *(KIB << i for i in (0, 2, 3, 4, 5, 6, 7, 8, 9)), *(MIB << i for i in range(7))]
EAGER_SIZES = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192]
SHOWN = (1, 8, 64, 128, 192, 256, 257, 512, 544, 1024, 2048, 8192)


@triton.jit
def _slot_mapping(
    qsl_ptr, pos_ptr, table_ptr, out_ptr, width, tokens, max_tokens, BS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    if row == tl.num_programs(0) - 1:
        for i in range(tokens, max_tokens, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(out_ptr + at, -1, mask=at < max_tokens)
        return
    start = tl.load(qsl_ptr + row)
    end = tl.load(qsl_ptr + row + 1)
    for i in range(start, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        pos = tl.load(pos_ptr + at, mask=at < end, other=0)
        block = tl.load(table_ptr + row.to(tl.int64) * width + pos // BS, mask=at < end, other=0).to(tl.int64)
        tl.store(out_ptr + at, block * BS + pos % BS, mask=at < end)


def slot_mapping_call(rows: int, width: int = 512) -> Any:
    qsl = torch.arange(rows + 1, device="cuda", dtype=torch.int32)
    pos = torch.full((rows,), 100, device="cuda", dtype=torch.int64)
    table = torch.ones(rows, width, device="cuda", dtype=torch.int32)
    out = torch.empty(2048, device="cuda", dtype=torch.int64)
    return lambda: _slot_mapping[(rows + 1,)](qsl, pos, table, out, width, rows, 2048, BS=16, BLOCK=1024)


def host_costs(stack: Stack) -> dict[str, float]:
    """Median host time of each device call as Python pays it, in ns."""
    one = Stack(stack.shape, 8, layers=1)
    a = torch.zeros(64, device="cuda")
    pinned, pageable_out = torch.zeros(64, pin_memory=True), torch.zeros(64, pin_memory=True)
    stream = torch.cuda.current_stream()
    side = torch.cuda.Stream()
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    done = torch.cuda.Event(blocking=False)
    done.record(stream)
    graph = graph_of(lambda: stack.forward(1))
    layer_graph = graph_of(lambda: one.forward(1))
    slots = slot_mapping_call(64)
    slots()
    torch.cuda.synchronize()
    fresh = lambda: torch.empty(16384, dtype=torch.int32, pin_memory=True)  # noqa: E731
    return {
        "launch": host_ns(lambda: a.add_(1.0)),
        "copy_h2d_pinned": host_ns(lambda: a.copy_(pinned, non_blocking=True)),
        "copy_d2h_pinned": host_ns(lambda: pageable_out.copy_(a, non_blocking=True)),
        "event_record": host_ns(lambda: event.record(stream)),
        "event_create_record": host_ns(lambda: torch.cuda.Event(enable_timing=True).record(stream)),
        "event_query": host_ns(event.query),
        "stream_wait_event": host_ns(lambda: side.wait_event(done)),
        "event_synchronize_done": host_ns(done.synchronize),
        "graph_launch": host_ns(graph.replay, repeats=600, batch=4),
        "graph_launch_layer": host_ns(layer_graph.replay, repeats=600, batch=20),
        "slot_mapping_launch": host_ns(slots),
        "pinned_alloc_cached": host_ns(fresh),
        "is_pinned": host_ns(pinned.is_pinned),
    }


def copy_curves() -> dict[str, list[list[float]]]:
    """For each kind and size: [bytes, device_ns by CUPTI (queued), host_ns of the call]."""
    curves: dict[str, list[list[float]]] = {"h2d_pinned": [], "d2h_pinned": [], "h2d_pageable": []}
    for size in COPY_SIZES:
        device = torch.zeros(size, dtype=torch.uint8, device="cuda")
        pinned = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
        paged = torch.zeros(size, dtype=torch.uint8)
        calls = {
            "h2d_pinned": lambda d=device, p=pinned: d.copy_(p, non_blocking=True),
            "d2h_pinned": lambda d=device, p=pinned: p.copy_(d, non_blocking=True),
            "h2d_pageable": lambda d=device, p=paged: d.copy_(p, non_blocking=True),
        }
        for kind, call in calls.items():
            repeats = 30 if size >= MIB else 100

            def burst(call: Any = call) -> None:
                torch.cuda._sleep(400_000)
                for _ in range(15):
                    call()

            call()
            wanted = "HtoD" if kind.startswith("h2d") else "DtoH"
            durations = [e["dur"] * 1e3 for e in cupti(burst) if e.get("cat") == "gpu_memcpy" and wanted in e["name"]]
            host = host_ns(call, repeats=repeats, batch=1 if kind == "h2d_pageable" else 10)
            curves[kind].append([size, statistics.median(durations), host])
    return curves


def event_bias(curve: list[list[float]]) -> dict[str, Any]:
    """By how much an event pair around a copy reads long, queued and idle, in ns by size."""
    cupti_ns = {int(size): dev for size, dev, _ in curve}
    bias: dict[str, Any] = {"queued": {}, "idle": {}}
    stream = torch.cuda.current_stream()
    for size in (32 * KIB, 128 * KIB, 1 * MIB, 8 * MIB):
        device = torch.zeros(size, dtype=torch.uint8, device="cuda")
        pinned = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
        for state in ("queued", "idle"):
            samples = []
            for _ in range(60):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                if state == "queued":
                    torch.cuda._sleep(200_000)
                start.record(stream)
                device.copy_(pinned, non_blocking=True)
                end.record(stream)
                torch.cuda.synchronize()
                samples.append(start.elapsed_time(end) * 1e6)
            bias[state][str(size)] = statistics.median(samples) - cupti_ns[size]
    return bias


def latencies(stack: Stack) -> dict[str, float]:
    """Device start minus end of the host call on an idle stream, and host wake-up after a device end, in ns."""
    a = torch.zeros(64, device="cuda")
    graph = graph_of(lambda: stack.forward(1))
    pinned = torch.zeros(64, pin_memory=True)
    out: dict[str, float] = {}

    def spaced(call: Any) -> Any:
        def work() -> None:
            for _ in range(60):
                call()
                torch.cuda.synchronize()
                until = time.perf_counter_ns() + 200_000
                while time.perf_counter_ns() < until:
                    pass
        return work

    for name, call, api in (("launch", lambda: a.add_(1.0), "cudaLaunchKernel"),
                            ("graph_launch", graph.replay, "cudaGraphLaunch"),
                            ("copy", lambda: a.copy_(pinned, non_blocking=True), "cudaMemcpyAsync")):
        events = cupti(spaced(call))
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        for e in events:
            if e.get("cat") in ("kernel", "gpu_memcpy"):
                c = e["args"]["correlation"]
                first[c] = min(first.get(c, 1e30), e["ts"])
                last[c] = max(last.get(c, 0.0), e["ts"] + e["dur"])
        calls = {e["args"]["correlation"]: e["ts"] + e["dur"] for e in events
                 if e.get("cat") == "cuda_runtime" and e["name"].startswith(api)}
        both = sorted(set(first) & set(calls))
        out[f"{name}_latency"] = statistics.median([(first[c] - calls[c]) * 1e3 for c in both])
        syncs = sorted(e["ts"] + e["dur"] for e in events if e.get("name") == "cudaDeviceSynchronize")
        wakes = [next((s for s in syncs if s >= last[c]), None) for c in both]
        waits = [(w - last[c]) * 1e3 for w, c in zip(wakes, both, strict=True) if w]
        out[f"{name}_sync_wakeup"] = statistics.median(waits)
    return out


def stack_times(stack: Stack, sizes: list[int]) -> tuple[list[float], list[str]]:
    """Device time of the stack in a graph, per size, and a hash of the kernel names of one layer per size."""
    pool = None
    times = []
    one = Stack(stack.shape, max(sizes), layers=1)
    for n in sizes:
        stack.forward(n)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            stack.forward(n)
        pool = pool or graph.pool()
        inner = 8 if n <= 1024 else 3
        times.append(device_ns(graph.replay, inner=inner, repeats=5))
        del graph
    hashes = []
    for begin in range(0, len(sizes), 100):
        part = sizes[begin : begin + 100]

        def run(part: list[int] = part) -> None:
            for n in part:
                with torch.profiler.record_function(f"size:{n}"):
                    one.forward(n)
                torch.cuda.synchronize()

        run()
        events = cupti(run)
        marks = sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events
                       if e["name"].startswith("size:") and e.get("cat") == "user_annotation")
        kernels = sorted((e["ts"], e["name"]) for e in events if e.get("cat") == "kernel")
        starts = [m[0] for m in marks] + [float("inf")]
        for i in range(len(marks)):
            names = [name for ts, name in kernels if starts[i] <= ts < starts[i + 1]]
            hashes.append(hashlib.sha256("\n".join(names).encode()).hexdigest()[:12])
    return times, hashes


def eager_times(stack: Stack, sizes: list[int]) -> list[list[float]]:
    """[n, device span by events, host time] of the eager stack on a drained device, in ns."""
    rows = []
    for n in sizes:
        stack.forward(n)
        spans, hosts = [], []
        for _ in range(15):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            t0 = time.perf_counter_ns()
            start.record()
            stack.forward(n)
            end.record()
            hosts.append(time.perf_counter_ns() - t0)
            torch.cuda.synchronize()
            spans.append(start.elapsed_time(end) * 1e6)
        rows.append([n, statistics.median(spans), statistics.median(hosts)])
    return rows


def attention_times(shape: Shape) -> dict[str, list[list[float]]]:
    """Device ns of one layer's attention by scaled_dot_product_attention: decode [n, kv, ns], prefill [q, ns]."""
    decode, prefill = [], []

    def tensor(*dims: int) -> torch.Tensor:
        return torch.randn(*dims, device="cuda", dtype=torch.bfloat16)

    for n in (1, 8, 32, 64, 128, 256, 512):
        for kv in (128, 512, 2048, 8192):
            if n * kv > 1 << 20:
                continue
            cache = (n, shape.kv_heads, kv, shape.head_dim)
            sets = [(tensor(n, shape.heads, 1, shape.head_dim), tensor(*cache), tensor(*cache))
                    for _ in range(max(1, min(8, (1 << 18) // (n * kv))))]
            state = {"i": 0}

            def call(sets: Any = sets, state: dict[str, int] = state) -> None:
                q, k, v = sets[state["i"] % len(sets)]
                state["i"] += 1
                F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

            decode.append([n, kv, device_ns(call, inner=8, repeats=5)])
    for q_len in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
        q, k, v = (tensor(1, h, q_len, shape.head_dim) for h in (shape.heads, shape.kv_heads, shape.kv_heads))
        prefill.append([q_len, device_ns(lambda q=q, k=k, v=v: F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True), inner=8, repeats=5)])
    return {"decode": decode, "prefill": prefill}


def head_times(shape: Shape) -> dict[str, list[list[float]]]:
    """Device ns of LM head, argmax and row gather by rows."""
    weight = torch.randn(shape.vocab, shape.hidden, device="cuda", dtype=torch.bfloat16) * 0.02
    hidden = torch.randn(8192, shape.hidden, device="cuda", dtype=torch.bfloat16)
    out: dict[str, list[list[float]]] = {"lm_head": [], "sample": [], "gather_hidden": [], "slot_mapping": []}
    for rows in (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048):
        index = torch.arange(rows, device="cuda") * 3
        picked = hidden[:rows]
        logits = F.linear(picked, weight)
        out["lm_head"].append([rows, device_ns(lambda p=picked: F.linear(p, weight), inner=6)])
        out["sample"].append([rows, device_ns(lambda x=logits: x.argmax(dim=-1), inner=6)])
        out["gather_hidden"].append([rows, device_ns(lambda i=index: hidden.index_select(0, i), inner=6)])
        out["slot_mapping"].append([rows, device_ns(slot_mapping_call(rows), inner=6)])
    return out


def ceilings() -> dict[str, float]:
    """Peak rates as measured here: device copy bytes/s (read plus written) and bf16 matrix FLOP/s."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(big)
    return {"matmul_flops_per_s": 2 * 8192**3 / device_ns(lambda: a @ b, inner=5) * 1e9,
            "device_copy_bytes_per_s": 2 * (1 << 30) / device_ns(lambda: other.copy_(big), inner=5) * 1e9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    torch.inference_mode().__enter__()
    began = time.time()
    sizes = [*range(1, 513), *range(544, 2049, 32), *range(2176, 4097, 128), *range(4352, 8193, 256)]
    shape = Shape()
    stack = Stack(shape, max(sizes))
    stack.forward(8)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                            text=True, check=True).stdout.split()[0]
    raw: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__, "triton": triton.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "command": "python benchmarks/calibrate/measure.py --out DIR", "shape": shape.__dict__,
    }
    for name, job in (
        ("host_cost_ns", lambda: host_costs(stack)),
        ("copy_curves", copy_curves),
        ("event_bias_ns", lambda: event_bias(raw["copy_curves"]["h2d_pinned"])),
        ("latency_ns", lambda: latencies(stack)),
        ("eager", lambda: eager_times(stack, EAGER_SIZES)),
        ("attention", lambda: attention_times(shape)),
        ("heads", lambda: head_times(shape)),
        ("ceilings", ceilings),
        ("stack", lambda: dict(zip(("graph_ns", "kernel_hash"), stack_times(stack, sizes), strict=True), sizes=sizes)),
    ):
        t0 = time.time()
        raw[name] = job()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "h200_raw.json").write_text(json.dumps(raw))
        print(f"{name}: {time.time() - t0:.1f} s", flush=True)
    for key in ("host_cost_ns", "latency_ns", "event_bias_ns", "eager", "attention", "heads", "ceilings"):
        print(key, json.dumps(raw[key]))
    for kind, curve in raw["copy_curves"].items():
        print(kind, [[s, round(d), round(h)] for s, d, h in curve])
    graph_us = [(n, round(t / 1e3, 1)) for n, t in zip(sizes, raw["stack"]["graph_ns"], strict=True) if n in SHOWN]
    print("graph", graph_us)
    print(f"total {time.time() - began:.0f} s on {raw['gpu']}, driver {driver}")


if __name__ == "__main__":
    main()
