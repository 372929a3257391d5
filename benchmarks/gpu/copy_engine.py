"""Where an event between a kernel and a queued copy fires, by what lies between them; CUPTI says how long it took.

Each case enqueues a kernel, something, a begin event, a pinned copy and an end event, once under the profiler and once
without it, where the profiler's median of the case stands for the truth. A pair that reads long by a constant can be
corrected; one that reads long by anything from 1.5 to 10 us cannot.

    python benchmarks/gpu/copy_engine.py --repeats 25 --out benchmarks/results/h200/copy_engine.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

KIB = 1024
SIZES = tuple(size * KIB for size in (32, 128, 512, 2048, 8192))
PRIMERS = (4, 256, 1 * KIB, 2 * KIB, 4 * KIB, 64 * KIB)
CYCLES = 300_000  # of the kernel, about 0.17 ms


class Bench:
    """Two streams, of which one only ever sees copies, and a buffer of each size on either side."""

    def __init__(self) -> None:
        self.stream, self.copies_only = torch.cuda.Stream(), torch.cuda.Stream()
        sizes = {*SIZES, *PRIMERS}
        self.host = {size: torch.zeros(size, dtype=torch.uint8, pin_memory=True) for size in sizes}
        self.gpu = {size: torch.zeros(size, dtype=torch.uint8, device="cuda") for size in sizes}
        self.between: dict[str, Callable[[], None]] = {"nothing": lambda: None, "64 KiB to the host": self._to_host}
        for size in PRIMERS:
            self.between[f"{size} bytes to the GPU"] = lambda size=size: self.to_gpu(size)  # type: ignore[misc]

    def to_gpu(self, size: int) -> None:
        """Pinned, on the current stream."""
        self.gpu[size].copy_(self.host[size], non_blocking=True)

    def _to_host(self) -> None:
        self.host[64 * KIB].copy_(self.gpu[64 * KIB], non_blocking=True)

    def cases(self) -> list[tuple[str, int]]:
        """(what lies between, size of the copy)."""
        return [(name, size) for name in (*self.between, "another stream") for size in SIZES]

    def run(self, name: str, size: int) -> float:
        """What the pair reads, in ns."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        time.sleep(0.0002)
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(CYCLES)
            stream = self.stream
            if name == "another stream":
                stream = self.copies_only
                stream.wait_event(self.stream.record_event())
            else:
                self.between[name]()
        with torch.cuda.stream(stream):
            begin.record(stream)
            self.to_gpu(size)
            end.record(stream)
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e6


def profiled(bench: Bench, repeats: int) -> tuple[list[float], list[float]]:
    """(pairs, CUPTI's durations) in ns, in the order of the cases, `repeats` times."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        pairs = [bench.run(*case) for _ in range(repeats) for case in bench.cases()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    copies = [event for event in events if event.get("cat") == "gpu_memcpy" and int(event["args"]["bytes"]) in SIZES]
    copies.sort(key=lambda event: event["args"]["correlation"])
    return pairs, [event["dur"] * 1e3 for event in copies]


def main() -> None:
    """Measure, write, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=25)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    bench = Bench()
    cases = bench.cases()
    for case in cases:
        bench.run(*case)
    bare = [bench.run(*case) for _ in range(chosen.repeats) for case in cases]
    pairs, truths = profiled(bench, chosen.repeats)
    if len(pairs) != len(truths):
        raise SystemExit(f"{len(pairs)} copies of ours, {len(truths)} of the profiler: they cannot be paired")
    lines: list[dict[str, Any]] = []
    for number, (name, size) in enumerate(cases):
        durations = truths[number :: len(cases)]
        median = statistics.median(durations)
        under = [pair - truth for pair, truth in zip(pairs[number :: len(cases)], durations, strict=True)]
        lines.append({
            "between": name, "size_bytes": size, "cupti_ns": median, "reads_long_by_under_cupti_ns": sorted(under),
            "reads_long_by_ns": sorted(pair - median for pair in bare[number :: len(cases)]),
        })  # fmt: skip
        spread = " ".join(f"{value / 1e3:6.2f}" for value in (min(under), statistics.median(under), max(under)))
        print(f"{name:24}{size // KIB:6} KiB {median / 1e3:8.2f} us, reads long by (least, median, most) {spread}")
    if chosen.out:
        record = {"gpu": torch.cuda.get_device_name(), "command": " ".join(sys.argv), "cases": lines}
        chosen.out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
