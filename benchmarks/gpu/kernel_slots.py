"""The slot-mapping kernel against an empty Triton kernel: the host's time for a launch, the device's time for one."""

from __future__ import annotations

import statistics
from typing import Any

import torch
import triton
from kernel_timing import DEVICE, device_intervals, enqueue_ns, quartiles
from stepscope.runner.inputs.slot_kernel import SlotKernel

TOKENS, BLOCK, MODEL_LEN = 8192, 16, 16384
CASES = (("1 request x 8192", [8192]), ("256 requests x 32", [32] * 256), ("255 x 1 + 7937", [1] * 255 + [7937]),
         ("256 decodes", [1] * 256))  # fmt: skip


@triton.jit
def empty():
    """Nothing: what a launch costs."""


def bound(lengths: list[int], generator: torch.Generator) -> tuple[SlotKernel, dict[str, torch.Tensor]]:
    """The kernel over a batch of these lengths, block ids at random, with what it should have written."""
    rows, tokens = len(lengths), sum(lengths)
    counts = torch.tensor(lengths, device=DEVICE)
    ends = counts.cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends]).to(torch.int32)
    table = torch.randint(1, 1 << 20, (rows, MODEL_LEN // BLOCK), generator=generator, device=DEVICE).to(torch.int32)
    owner = torch.repeat_interleave(torch.arange(rows, device=DEVICE), counts)
    positions = torch.zeros(TOKENS, dtype=torch.int64, device=DEVICE)
    positions[:tokens] = 77 + torch.arange(tokens, device=DEVICE) - starts[:-1][owner]
    slots = torch.full((TOKENS,), 12345, dtype=torch.int64, device=DEVICE)
    last = torch.empty(rows, dtype=torch.int64, device=DEVICE)
    live = positions[:tokens]
    expected = torch.full_like(slots, -1)
    expected[:tokens] = table[owner, live // BLOCK].long() * BLOCK + live % BLOCK
    kernel = SlotKernel(starts, positions, table, (slots, last), BLOCK)
    return kernel, {"slots": slots, "expected": expected, "last": last, "ends": ends}


def measure(launches: int = 300) -> dict[str, Any]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    found: dict[str, Any] = {"device_us": {}, "enqueue_ns": {}}
    calls: dict[str, Any] = {"empty": lambda: empty[(1,)]()}
    for name, lengths in CASES:
        kernel, tensors = bound(lengths, generator)
        rows, tokens = len(lengths), sum(lengths)
        kernel(rows, tokens)
        assert torch.equal(tensors["slots"], tensors["expected"]), name
        assert torch.equal(tensors["last"], tensors["ends"] - 1), name
        calls[name] = lambda kernel=kernel, rows=rows, tokens=tokens: kernel(rows, tokens)
    for name, call in calls.items():
        for _ in range(20):
            call()
        intervals = device_intervals(lambda call=call: [call() for _ in range(launches)])
        found["device_us"][name] = quartiles([end - begin for _, begin, end in intervals])
    samples = enqueue_ns({name: calls[name] for name in ("empty", CASES[0][0], CASES[1][0])})
    found["enqueue_ns"] = {name: quartiles(times) for name, times in samples.items()}
    floor_ns, floor_us = statistics.median(samples["empty"]), found["device_us"]["empty"]["median"]
    found["enqueue_ratio"] = {n: round(statistics.median(t) / floor_ns, 3) for n, t in samples.items() if n != "empty"}
    found["device_above_empty_us"] = {
        name: round(times["median"] - floor_us, 2) for name, times in found["device_us"].items() if name != "empty"
    }
    return found


def table(found: dict[str, Any]) -> list[str]:
    lines = ["slot mapping, 8192 tokens      enqueue us   x empty   device us  above empty us"]
    for name, times in found["device_us"].items():
        host = found["enqueue_ns"].get(name)
        host_us = f"{host['median'] / 1e3:10.2f}" if host else " " * 10
        ratio = f"{found['enqueue_ratio'][name]:9.2f}" if name in found["enqueue_ratio"] else " " * 9
        above = f"{found['device_above_empty_us'][name]:15.2f}" if name in found["device_above_empty_us"] else ""
        lines.append(f"{name:28} {host_us} {ratio} {times['median']:11.2f} {above}")
    return lines
