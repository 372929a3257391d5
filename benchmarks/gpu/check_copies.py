"""Copies as events see them against copies as CUPTI sees them, in the same run; and the clock corridor over a long one.

Through the door of the device, under torch.profiler: pinned copies of several sizes behind a busy kernel (queued) and
on an idle stream, pageable ones of 4 KiB, copies back to the host; on the compute and on the copy stream.
For each kind: how often it was flagged queued, |C| by CUPTI and by events (queued: after correction), the largest
difference, how many lie within 1.5 us, and for all copies whether the stated bounds hold CUPTI's |C|. The primers
that the device sends ahead of queued copies are told by their size.

    python benchmarks/gpu/check_copies.py --seconds 22 --out benchmarks/results/h200/copies.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from stepscope.instrumentation.probe import Ledger
from stepscope.runner.devices.base import Work
from stepscope.runner.devices.cuda import CudaDevice
from stepscope.runner.devices.cuda_engine import PRIMER_BYTES
from stepscope.runner.devices.cuda_factory import make_cuda

KIB = 1024
SIZES = (4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, 2048 * KIB, 8192 * KIB)
QUEUED_LIMIT_NS = 1_500
BUSY_CYCLES = 1_500_000  # about a millisecond


@dataclass(frozen=True)
class Case:
    """One kind of copy."""

    direction: str
    memory: str
    size: int
    state: str
    stream: str = "compute"

    def __str__(self) -> str:
        return f"{self.direction} {self.memory:8} {self.size // KIB:5} KiB {self.state:6} {self.stream}"


def cases() -> list[Case]:
    """All kinds."""
    found = [Case("h2d", "pinned", size, state) for size in SIZES for state in ("queued", "idle")]
    states = ("queued", "idle")
    found += [Case("h2d", "pinned", size, state, "copy") for size in (128 * KIB, 8192 * KIB) for state in states]
    found += [Case("h2d", "pageable", 4 * KIB, state) for state in states]
    found += [Case("d2h", "pinned", size, state) for size in (4 * KIB, 2048 * KIB) for state in states]
    return [*found, Case("d2h", "pageable", 4 * KIB, "idle")]


def act(device: CudaDevice, case: Case, buffers: dict[tuple[str, int], tuple[torch.Tensor, torch.Tensor]]) -> None:
    """One copy in the wanted state of its queue, with a kernel behind it."""
    host, gpu = buffers[case.memory, case.size]
    torch.cuda.synchronize()
    time.sleep(0.0003)
    if case.state == "queued":
        device.launch("busy", lambda: torch.cuda._sleep(BUSY_CYCLES), Work("busy"), stream=case.stream)
    name = f"{case}"
    if case.direction == "h2d":
        device.copy_to_device(gpu, host, buffer=name, stream=case.stream)
    else:
        device.copy_to_host(host, gpu, buffer=name, stream=case.stream)
    device.launch("reader", lambda: gpu.add_(1), Work("reader"), stream=case.stream)
    device.host_wait(device.record(case.stream), "copy")


def measure(repeats: int) -> tuple[list[dict[str, Any]], list[tuple[str, int, int, str]]]:
    """(our rows of `copies`, CUPTI's copies as (kind, start, duration, bytes)), both in order."""
    ledger = Ledger()
    device = make_cuda(ledger)
    buffers = {}
    for memory in ("pinned", "pageable"):
        for size in SIZES:
            host = device.host_tensor((size,), torch.uint8, pinned=memory == "pinned")
            buffers[memory, size] = (host, device.empty((size,), torch.uint8))
    for case in cases():
        act(device, case, buffers)
    device.synchronize()
    ledger.take()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(repeats):
            for case in cases():
                act(device, case, buffers)
        device.synchronize()
    rows = ledger.take()["copies"]
    device.close()
    return [_named(row) for row in rows], _cupti(profile)


def _named(row: tuple[Any, ...]) -> dict[str, Any]:
    names = (
        "step", "direction", "size_bytes", "changed_bytes", "src_kind", "dst_kind", "buffer", "lane", "call_ns",
        "return_ns", "start_ns", "end_ns", "err_ns", "queued", "is_async", "op",
    )  # fmt: skip
    return dict(zip(names, row, strict=True))


def _cupti(profile: torch.profiler.profile) -> list[tuple[str, int, int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    found = [event for event in events if event.get("cat") == "gpu_memcpy" and "DtoD" not in event["name"]]
    found = [event for event in found if int(event["args"]["bytes"]) != PRIMER_BYTES]
    found.sort(key=lambda event: event["args"]["correlation"])
    return [
        (event["name"], round(event["ts"] * 1e3), round(event["dur"] * 1e3), int(event["args"]["bytes"]))
        for event in found
    ]


def kind_of(row: dict[str, Any]) -> str:
    """CUPTI's name of what our row says."""
    word = {"pinned": "Pinned", "pageable": "Pageable", "device": "Device"}
    way = "HtoD" if row["direction"] == "h2d" else "DtoH"
    return f"Memcpy {way} ({word[row['src_kind']]} -> {word[row['dst_kind']]})"


def judge(rows: list[dict[str, Any]], cupti: list[tuple[str, int, int, int]]) -> list[dict[str, Any]]:
    """A line a kind of copy."""
    if len(rows) != len(cupti):
        raise SystemExit(f"{len(rows)} copies of ours, {len(cupti)} of the profiler: they cannot be paired")
    lines = []
    for case in dict.fromkeys(row["buffer"] for row in rows):
        pairs = [(row, truth) for row, truth in zip(rows, cupti, strict=True) if row["buffer"] == case]
        timed = [(row, truth) for row, truth in pairs if row["start_ns"] is not None]
        ours = [row["end_ns"] - row["start_ns"] for row, _ in timed]
        differences = [length - truth[2] for length, (_, truth) in zip(ours, timed, strict=True)]
        lines.append({
            "case": case, "n": len(pairs), "flagged_queued": sum(bool(row["queued"]) for row, _ in pairs),
            "kinds_equal": sum(kind_of(row) == truth[0] for row, truth in pairs),
            "bytes_equal": sum(row["size_bytes"] == truth[3] for row, truth in pairs),
            "cupti_ns": statistics.median(truth[2] for _, truth in pairs),
            "ours_ns": statistics.median(ours) if ours else None,
            "err_ns": statistics.median(row["err_ns"] for row, _ in timed) if timed else None,
            "difference_p50_ns": statistics.median(differences) if differences else None,
            "difference_max_ns": max(differences, key=abs) if differences else None,
            "within_1500_ns": sum(abs(gap) <= QUEUED_LIMIT_NS for gap in differences),
            "within_err": sum(abs(gap) <= 2 * row["err_ns"] for gap, (row, _) in zip(differences, timed, strict=True)),
            "differences_ns": differences,
        })  # fmt: skip
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    """The lines as text; times in us."""
    names = ("cupti_ns", "ours_ns", "err_ns", "difference_p50_ns", "difference_max_ns")
    heads = ("cupti", "ours", "err", "diff p50", "diff max")
    counts = f"{'copy':38}{'n':>4}{'queued':>7}{'kinds':>6}"
    rows = [counts + "".join(f"{head:>10}" for head in heads) + f"{'in 1.5':>7}{'in err':>7}"]
    for line in lines:
        numbers = "".join(f"{'-' if line[name] is None else format(line[name] / 1e3, '.2f'):>10}" for name in names)
        counts = f"{line['n']:>4}{line['flagged_queued']:>7}{line['kinds_equal']:>6}"
        rows.append(f"{line['case']:38}{counts}{numbers}{line['within_1500_ns']:>7}{line['within_err']:>7}")
    return "\n".join(rows)


def clock(seconds: float) -> dict[str, Any]:
    """A run of small kernels and waits: constraints, violations, errors, and what one constant offset would break."""
    ledger = Ledger()
    device = make_cuda(ledger)
    tensor = device.empty((1024,), torch.float32)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        device.launch("k", lambda: tensor.add_(1), Work("k"))
        device.host_wait(device.record("compute"), "clock")
        time.sleep(0.001)
    device.synchronize()
    corridor = device._rows.corridor
    spans = [row for row in ledger.rows["spans"] if row[2] == "k" and row[3] == "kernel" and row[5] is not None]
    segments = [segment for segment in corridor._segments.values() if segment]
    errs = sorted(err for segment in segments for err in segment.errs_ns)
    first, last = segments[0], segments[-1]
    moved = last.base_ns + last.offsets_ns[-1] - first.base_ns - first.offsets_ns[0]
    drift = moved / max(last.knots[-1] - first.knots[0], 1)
    broken, worst = corridor.violations_without_drift()
    found = {
        "seconds": seconds, "constraints": corridor.constraints, "windows": len(corridor._segments),
        "windows_empty": len(corridor._segments) - len(segments), "spans": len(spans),
        "violations": corridor.violations(), "err_p50_ns": errs[len(errs) // 2], "err_max_ns": errs[-1],
        "drift_ppm": drift * 1e6, "without_drift_violations": broken, "without_drift_worst_ns": worst,
    }  # fmt: skip
    device.close()
    return found


def main() -> None:
    """Parse the command line, measure, write, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=25)
    options.add_argument("--seconds", type=float, default=0.0)
    options.add_argument("--out", type=Path)
    options.add_argument("--raw", type=Path, help="every copy, as seen by either side")
    chosen = options.parse_args()
    rows, cupti = measure(chosen.repeats)
    if chosen.raw:
        chosen.raw.write_text(json.dumps({"ours": rows, "cupti": cupti}))
    lines = judge(rows, cupti)
    record: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "command": " ".join(sys.argv), "copies": lines,
    }  # fmt: skip
    print(table(lines))
    if chosen.seconds:
        record["clock"] = clock(chosen.seconds)
        print(json.dumps(record["clock"]))
    if chosen.out:
        chosen.out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
