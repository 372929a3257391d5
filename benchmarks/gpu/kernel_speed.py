"""Speed of the runner's kernels on a GPU against what that GPU reaches in the same run.

Slot mapping against an empty kernel; decode attention (64 rows, 8 KV heads x 128, groups of 4) as a share of the copy
bandwidth (keys and values read; the copy counts bytes read and written, and a GPU reads faster than it copies); prefill
attention (causal products only) as a share of the matrix rate; decode steps of whole models against
bytes / bandwidth and against vLLM's step on the same GPU. `--sweep` adds the tables behind tiles, warps and stages.

    python benchmarks/gpu/kernel_speed.py --out benchmarks/results/h200/kernel_speed.json [--sweep FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import kernel_attention
import kernel_slots
import kernel_steps
import kernel_timing
import torch
import triton

VLLM_STEP_US = 1140.0
"""GPU time of a decode step of 64 requests under vLLM 0.26 (V1, graphs) on an H200, shape small-1024, by Kineto."""


def facts() -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "gpu": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__,
        "triton": triton.__version__, "date": date.today().isoformat(),
        "command": "python benchmarks/gpu/kernel_speed.py --out FILE [--sweep FILE]",
    }  # fmt: skip


def attention_tables(found: dict[str, Any]) -> list[str]:
    lines = ["head_dim  rows x queries / length                  us    TB/s   of copy  TFLOP/s  of matmul   error"]
    for row in (*found["decode"], *found["prefill"]):
        shape = " + ".join(f"{count} x {new} / {length}" for count, new, length in row["rows"])
        copied = f"{row['share_of_copy']:9.3f}" if "share_of_copy" in row else " " * 9
        product = f"{row['share_of_matmul']:10.3f}" if "share_of_matmul" in row else " " * 10
        lines.append(f"{row['head_dim']:8}  {shape:33} {statistics.median(row['us']):9.1f}"
                     f" {row['bytes_per_s'] / 1e12:7.2f} {copied} {row['flops_per_s'] / 1e12:8.1f} {product}"
                     f" {row['error']:7.4f}")  # fmt: skip
    return lines


def step_tables(found: dict[str, Any]) -> list[str]:
    lines = ["decode step, 64 rows    prompt  GPU us  with gaps   bytes/rate us   ratio   with gaps   activities"]
    for row in found["steps"]:
        least = (row["weight_bytes"] + row["kv_bytes"]) / found["ceilings"]["copy_bytes_per_s"] * 1e6
        lines.append(f"{row['model']:20} {row['prompt']:9} {row['busy_us']:7.0f} {row['busy_with_gaps_us']:10.0f}"
                     f" {least:15.0f} {row['busy_us'] / least:7.2f} {row['busy_with_gaps_us'] / least:11.2f}"
                     f" {row['activities']:12.1f}")  # fmt: skip
        if row["model"] == "small-1024":
            lines.append(f"  against vLLM's {VLLM_STEP_US:.0f} us: {row['busy_us'] / VLLM_STEP_US:.2f} x, bound 1.30")
    return lines


def sweep_tables(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for kernel, head_dim in itertools.product(("decode", "mixed"), (64, 128)):
        measured = [r for r in rows if (r["kernel"], r["head_dim"]) == (kernel, head_dim) and r["us"]]
        lines.append(f"{kernel} head_dim {head_dim}: query rows, keys, warps, stages | us of {measured[0]['batches']}")
        for row in sorted(measured, key=lambda r: r["us"][0])[:6]:
            lines.append(f"   {tuple(row['tiles'].values())} | {row['us']}")
    splits = [row for row in rows if row["kernel"] == "splits"]
    for key, same in itertools.groupby(splits, key=lambda r: (r["head_dim"], r["batches"])):
        lines.append(f"splits {key}: " + " ".join(f"{r['splits']}: {r['us'][0]:.1f}" for r in same if r["us"]))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sweep", type=Path, help="also try every tile, and write that here")
    parser.add_argument("--parts", default="slots,decode,prefill,steps", help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = options.parts.split(",")
    found = facts() | {"vllm_step_us": VLLM_STEP_US, "ceilings": kernel_timing.ceilings()}
    rates = found["ceilings"]
    terabytes, teraflops = rates["copy_bytes_per_s"] / 1e12, rates["matmul_flops_per_s"] / 1e12
    lines = [f"copy {terabytes:.2f} TB/s, matmul {teraflops:.0f} TFLOP/s"]
    if "slots" in parts:
        found["slots"] = kernel_slots.measure()
        lines += kernel_slots.table(found["slots"])
    if "decode" in parts:
        found["decode"] = kernel_attention.decode(rates["copy_bytes_per_s"])
        found["prefill"] = kernel_attention.prefill(rates["matmul_flops_per_s"])
        lines += attention_tables(found)
    if "steps" in parts:
        found["steps"] = kernel_steps.measure()
        lines += step_tables(found)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    if options.sweep:
        rows = kernel_attention.sweep()
        options.sweep.write_text(json.dumps(facts() | {"rows": rows}) + "\n")
        lines += sweep_tables(rows)
    print("\n".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
