"""What the probe's own calls cost the host in a step, without a GPU: before a change and after it, in one process.

The step has the runner's scopes (3 phases, 13 ranges), its device calls (6 copies, 5 launches, 6 events, one wait) and
its note. The `cuda` device stands on streams and events that do nothing, so what is measured is Python: with `--stage
none` back to back, so with warm caches; with `torch` each stage and launch runs three small torch operations, after
which the probe finds its code and data colder, as in a real step.

Arms: no probe (events untimed), host ranges, host ranges and timed events; of this checkout and, with --before, of
another one. Blocks of ten steps take turns, forth and back; a figure is the median over rounds of the CPU time of a
step, arm - arm without a probe of the same checkout, with its 95 % interval.

    git worktree add ../before COMMIT && python benchmarks/probe_calls.py --before ../before --stage torch
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

ARMS = ("none", "host", "events")
STEPS = 10
RANGES = (
    "schedule", "update_states", "dispatch", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping",
    "attention_metadata", "lm_head", "sample", "copy_tokens", "update_from_output",
)  # fmt: skip


TEXT = ctypes.create_string_buffer(b"")
"""What stands for an event and for a stream where the driver records: strcmp finds them equal, its way to say that all
went well."""
STRCMP = ctypes.cast(ctypes.CDLL(None).strcmp, ctypes.c_void_p).value


class IdleStream:
    device = torch.device("cuda", 0)
    cuda_stream = ctypes.addressof(TEXT)

    def query(self) -> bool:
        return True


class IdleEvent:
    """Fires at once; recording it is a call into C that does nothing."""

    record = staticmethod(id)
    cuda_event = ctypes.addressof(TEXT)

    def __init__(self, enable_timing: bool = True) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: IdleEvent) -> float:
        return 0.0


class PinnedMemory:
    pinned, reason = True, ""

    def kind(self, tensor: torch.Tensor) -> str:
        return "pinned"


@contextmanager
def on_stream(stream: IdleStream) -> Iterator[None]:
    yield


def make_device(load: Callable[[str], Any], ledger: Any, *, timing: bool) -> Any:
    """A `cuda` device of the loaded package without a driver."""
    cuda, events = load("runner.devices.cuda"), load("runner.devices.cuda_events")
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_stream = lambda stream: None
    torch.cuda.stream = on_stream
    cuda.take_streams = lambda: {name: IdleStream() for name in ("compute", "copy", "output")}
    cuda.Primer = lambda device: None
    memory = load("runner.devices.cuda_tensors") if find_spec(f"{cuda.__package__}.cuda_tensors") else cuda
    memory.make_host_memory = PinnedMemory
    if find_spec(f"{cuda.__package__}.cuda_native"):  # since then the driver is called from C
        load("runner.devices.cuda_native").driver_record = lambda: STRCMP
    cuda.EventTimeline = lambda device: events.EventTimeline(device, IdleEvent, worker=False)
    return cuda.CudaDevice(ledger, load("runner.devices.cuda_rows").CopyCorrection(), timing=timing)


class Arm:
    """One probe on one device, and the step."""

    def __init__(self, package: str, arm: str, stage: Callable[[], None]) -> None:
        load = lambda path: importlib.import_module(f"{package}.{path}")  # noqa: E731
        probes = load("instrumentation.probe")
        self.stage = stage
        self.ledger = probes.Ledger()
        self.device = make_device(load, self.ledger, timing=arm == "events")
        self.probe = probes.NullProbe()
        if arm != "none":
            self.probe = probes.Probe(self.ledger, self.device.clock, marks=self.device, level=arm)
        self.work = load("runner.devices.base").Work("stage")
        self.lens = np.arange(8, dtype=np.int32)
        self.ends = torch.zeros(8), torch.zeros(8)
        special = {"commit_block_table": Arm.copy, "copy_inputs": Arm.copies, "copy_tokens": Arm.tokens}
        launched = {"slot_mapping", "lm_head", "sample"}
        self.ranges = {
            name: self.probe.timed(name, special.get(name, Arm.launch if name in launched else Arm.work_on_host))
            for name in RANGES
        }
        parts = {"preprocess": Arm.preprocess, "forward": Arm.forward, "sample": Arm.sample}
        self.phases = {name: self.probe.timed_phase(name, part) for name, part in parts.items()}
        self.number = 0

    def work_on_host(self, first: object, second: object) -> None:
        self.stage()

    def launch(self, first: object, second: object) -> None:
        self.device.launch("stage", self.stage, self.work)

    def copy(self, first: object, second: object) -> None:
        self.device.copy_to_device(*self.ends, buffer="b")
        self.device.record("compute")
        self.stage()

    def copies(self, first: object, second: object) -> None:
        for _ in range(4):
            self.copy(first, second)

    def tokens(self, first: object, second: object) -> None:
        self.device.copy_to_host(*self.ends, buffer="tokens")
        event = self.device.record("compute")
        self.stage()
        self.device.host_wait(event, "tokens")

    def preprocess(self, step: Any) -> None:
        for name in RANGES[1:8]:
            self.ranges[name](self, 1, 2)

    def forward(self, step: Any) -> None:
        self.launch(1, 2)
        if step.keeps_figures:
            figures: dict[str, int] = {}
            lens = self.lens.tobytes()
            step.note_later(lambda: figures if lens else {})

    def sample(self, step: Any) -> None:
        for name in RANGES[8:12]:
            self.ranges[name](self, 1, 2)

    def step(self) -> None:
        self.ranges["schedule"](self, 1, 2)
        self.number += 1  # on through all blocks: a number that does not rise costs what no engine's step does
        with self.probe.step(self.number) as step:
            for phase in self.phases.values():
                phase(self, step)
        self.ranges["update_from_output"](self, 1, 2)

    def block(self) -> float:
        """Median CPU time of a step in ns; the rows are made and dropped behind it."""
        times = []
        for _ in range(STEPS + 2):
            begin = time.thread_time_ns()
            self.step()
            times.append(time.thread_time_ns() - begin)
        self.device.events.resolve(time.perf_counter_ns())
        self.device._rows.finish()
        self.ledger.take()
        return statistics.median(times[2:])


def small_torch() -> Callable[[], None]:
    """What stands for a stage's own work."""
    table, weight, rows = torch.randn(64, 64), torch.randn(64, 64), torch.arange(8)

    def stage() -> None:
        (table.index_select(0, rows) @ weight).argmax(dim=-1)

    return stage


def interval(differences: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval, in us."""
    ordered = sorted(differences)
    reach, middle = round(0.98 * len(ordered) ** 0.5), len(ordered) // 2
    low, high = ordered[max(middle - reach, 0)], ordered[min(middle + reach, len(ordered) - 1)]
    return statistics.median(ordered) / 1e3, low / 1e3, high / 1e3


def main() -> None:
    """Parse the command line, measure, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--before", type=Path, help="another checkout")
    options.add_argument("--stage", choices=["none", "torch"], default="none")
    options.add_argument("--rounds", type=int, default=200)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    stage = small_torch() if chosen.stage == "torch" else lambda: None
    with tempfile.TemporaryDirectory() as folder:
        packages = ["stepscope"]
        if chosen.before:
            packages.insert(0, "stepscope_before")
            (Path(folder) / "stepscope_before").symlink_to(chosen.before.resolve())
            sys.path.insert(0, folder)
        arms = {(package, arm): Arm(package, arm, stage) for package in packages for arm in ARMS}
    gc.collect()
    gc.freeze()
    found: dict[tuple[str, str], list[float]] = {key: [] for key in arms}
    for number in range(chosen.rounds):
        for key in list(arms) if number % 2 else list(arms)[::-1]:
            found[key].append(arms[key].block())
    for package in packages:
        print(f"{package:18}none    {interval(found[package, 'none'])[0]:7.1f} us a step, stages and all")
        for arm in ARMS[1:]:
            pairs = zip(found[package, arm], found[package, "none"], strict=True)
            cost, low, high = interval([one - bare for one, bare in pairs])
            print(f"{package:18}{arm:8}{cost:7.1f} us a step [{low:.1f} {high:.1f}]")


if __name__ == "__main__":
    main()
