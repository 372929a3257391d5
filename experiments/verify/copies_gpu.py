"""Check of the copies' times on a GPU, against CUPTI in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pandas as pd
import torch

from ...analysis.overlap import copy_overlap
from ...instrumentation.probe import Ledger, Probe
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.reader import Recording
from ...instrumentation.recording.schema import COPIES
from ...runner.devices.base import Work
from ...runner.devices.cuda import CudaDevice
from ...runner.devices.cuda_engine import PRIMER_BYTES
from ...runner.devices.cuda_factory import make_cuda
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import KIB, NEEDS, WHY, sleep, traced

SIZES_KIB = (32, 128, 512, 2048, 8192)
UNRESOLVED_KIB = (32, 128)
"""Copies of 2 and 5 us: shorter than four times what is not known of their times."""
_AT = {column.name: at + 1 for at, column in enumerate(COPIES)}
Pair = tuple[torch.Tensor, torch.Tensor]


class _Copying:
    """Steps of one copy each: behind a kernel or on an idle stream, in a random order of sizes."""

    def __init__(self, device: CudaDevice, ledger: Ledger, setting: Setting) -> None:
        self._device, self._rng = device, setting.random("copies")
        self._rounds = setting.count(25, 5)
        self.probe = Probe(ledger, device.clock, marks=device)
        self._steps = 0
        self._pairs: dict[int, Pair] = {
            size: (
                device.host_tensor((size * KIB,), torch.uint8, pinned=True), device.empty((size * KIB,), torch.uint8),
            )
            for size in SIZES_KIB
        }  # fmt: skip

    def __call__(self) -> None:
        self.run(self._rounds)

    def run(self, rounds: int) -> None:
        """Each case `rounds` times."""
        cases = [(size, queued) for size in SIZES_KIB for queued in (True, False)] * rounds
        self._rng.shuffle(cases)
        for size, queued in cases:
            self._copy(size, queued)

    def _copy(self, size: int, queued: bool) -> None:
        device, (host, gpu) = self._device, self._pairs[size]
        torch.cuda.synchronize()
        if queued:
            sleep(device, 4_000)  # longer than a busy host may take to hand the copy over
        with self.probe.step(self._steps) as step, step.phase("preprocess"), self.probe.range("build_indices"):
            device.copy_to_device(gpu, host, buffer=f"{'queued' if queued else 'idle'} {size}")
        device.launch("reader", partial(gpu.add_, 1), Work("reader"))
        device.host_wait(device.record("compute"), "copy")
        self._steps += 1


def _copies(setting: Setting) -> Sequence[Finding]:
    """Lengths of queued copies against CUPTI's; copies on an idle stream are flagged; short ones have no fraction."""
    ledger = Ledger()
    with closing(make_cuda(ledger)) as device:
        copying = _Copying(device, ledger, setting)
        copying.run(2)  # nothing is cold any more
        device.synchronize()
        ledger.take()
        events = [event for event in traced(copying) if event.category == "gpu_memcpy" and "HtoD" in event.name]
        truth = [event.end_ns - event.start_ns for event in events if event.size_bytes != PRIMER_BYTES]
        device.synchronize()
        copying.probe.finish()
        recording = Recording.from_ledger(ledger, RecordingMeta(source="lab", device="cuda"))
    rows: list[dict[Any, Any]] = recording.table("copies").to_dict("records")
    if len(rows) != len(truth):
        return [exact("copies of ours, and of the profiler", len(truth), len(rows))]
    return [*_times(rows, truth), *_fractions(recording)]


def _times(rows: Sequence[dict[Any, Any]], truth: Sequence[float]) -> list[Finding]:
    queued = [(row, ns) for row, ns in zip(rows, truth, strict=True) if row["buffer"].startswith("queued")]
    timed = [int(row["end_ns"] - row["start_ns"]) - ns for row, ns in queued if pd.notna(row["start_ns"])]
    flagged = sum(row["queued"] is row["buffer"].startswith("queued") for row in rows)
    largest = max(map(abs, timed), default=1e9) / 1e3
    return [
        exact(f"{len(rows)} copies behind work or on an idle stream: flagged rightly", len(rows), flagged),
        exact("queued copies with times", len(queued), len(timed)),
        within("queued copies: largest difference of |C| from CUPTI", largest, 0, 1.5, "us"),
    ]


def _fractions(recording: Recording) -> list[Finding]:
    def known(sizes: Sequence[int]) -> int:
        found = (copy_overlap(recording, f"queued {size}")["build_fraction"] for size in sizes)
        return sum(int(column.notna().sum()) for column in found)

    large = known((8192,))
    return [
        exact("queued copies of 32 and 128 KiB that have an overlap fraction", 0, known(UNRESOLVED_KIB)),
        within("queued copies of 8 MiB that have one", large, 1, 1e9),
    ]


CHECKS = (
    Check(
        group="overlap", name="copies", point=8, run=_copies, needs=NEEDS, why=WHY,
        mutants={
            "no_primer": replaced(
                "runner.devices.cuda_events", "StampLane.has_kernels", lambda whole: property(lambda self: False)
            ),
            "fractions_of_anything": replaced("analysis.overlap", "RESOLUTION", lambda whole: 0),
        },
    ),
)  # fmt: skip
