"""Checks of staged buffers: hazards that were planted, and which copies came from memory that is not page-locked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import torch

from ...instrumentation.probe import Ledger
from ...instrumentation.recording.schema import BUFFERS, COPIES
from ...runner.buffers.factory import BufferFactory
from ...runner.buffers.guards import NoGuard
from ...runner.buffers.road import Road
from ...runner.devices import make_device
from ...runner.devices.base import Device
from .check import Check, Finding, Setting, exact, replaced, together

SLOTS = 2
_HAZARD = [column.name for column in BUFFERS].index("hazard") + 1
_COPY = {column.name: at + 1 for at, column in enumerate(COPIES)}
DEVICES = ("sim", "cuda")
NO_QUEUE = "a device without queues has no copies in flight"


def hazards(device: Device, ledger: Ledger, steps: int, *, guarded: bool) -> Counter[str]:
    """Verdicts of a ring of 2 that is written and sent `steps` times on an idle stream.

    Each copy is over before the next write, or its verdict would rightly be `observed`: a GPU that other processes use
    as well gets to it milliseconds later.
    """
    road = Road() if guarded else Road(make_guard=lambda *_: NoGuard())
    factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=SLOTS, road=road, verify=True)
    buffer = factory.buffer("planted", 1024, torch.int32)
    for number in range(steps):
        ledger.step = number
        buffer.acquire()[:] = number
        buffer.publish(1024)
        wait_unseen(device)
    ledger.step = None
    device.synchronize()
    factory.flush()
    return Counter(str(row[_HAZARD]) for row in ledger.take()["buffers"])


def wait_unseen(device: Device) -> None:
    """Let a GPU come to rest without the device's account of what the host has seen; modelled copies move at once."""
    if device.tensor_device.type == "cuda":
        torch.cuda.synchronize()


def _possible(setting: Setting) -> Sequence[Finding]:
    """Hazards of a staged buffer on an idle stream: none with the guard; without it all possible, none observed."""
    reuses = setting.count(200, 50)
    ledger = Ledger()
    with closing(opened(setting, ledger)) as device:
        kept, bare = (hazards(device, ledger, reuses + SLOTS, guarded=guarded) for guarded in (True, False))
    return [
        exact(f"{reuses} reuses of a slot, guard on: verdicts", {"none": reuses + SLOTS}, dict(kept)),
        exact(f"{reuses} reuses, guard removed, idle stream: observed", 0, bare["observed"]),
        exact("possible", reuses, bare["possible"]),
    ]


def _sources(setting: Setting) -> Sequence[Finding]:
    """The kind of source memory of random copies: page-locked or ordinary, whole tensors or views, of 4 KiB too."""
    rng, ledger = setting.random("sources"), Ledger()
    planted = []
    with closing(opened(setting, ledger)) as device:
        for _ in range(setting.count(200, 60)):
            pinned, size = rng.random() < 0.5, rng.choice((64, 1024, 4096, 65_536))
            host = device.host_tensor((2 * size,), torch.uint8, pinned=pinned)[size:]
            device.copy_to_device(device.empty((size,), torch.uint8), host, buffer="planted")
            planted.append(("pinned" if pinned else "pageable", size))
        device.synchronize()
    rows: list[Any] = ledger.take()["copies"]
    found = [(row[_COPY["src_kind"]], row[_COPY["size_bytes"]]) for row in rows]
    wrong = sum(one != other for one, other in zip(planted, found, strict=True))
    return [exact(f"{len(planted)} copies from pinned or pageable memory: told wrongly", 0, wrong)]


def opened(setting: Setting, ledger: Ledger) -> Device:
    """A device with queues: modelled, or a GPU."""
    return make_device("sim", ledger=ledger) if setting.device == "sim" else make_device("cuda", ledger=ledger)


def told_by_size(_: object) -> Callable[[object, torch.Tensor], str]:
    """A way to tell memory that looks at nothing but its size."""
    return lambda memory, tensor: "pinned" if tensor.numel() > 4096 else "pageable"


CHECKS = (
    Check(
        group="pinned", name="possible", point=9, run=_possible, needs=DEVICES, why=NO_QUEUE,
        mutants={
            "believes_everything": replaced(
                "runner.devices.streams", "HappensBefore.seen", lambda whole: lambda self, op: True
            ),
            "guard_without_effect": replaced(
                "runner.buffers.guards", "EventGuard.wait", lambda whole: lambda self, slot, reason: 0
            ),
        },
    ),
    Check(
        group="pinned", name="sources", point=10, run=_sources, needs=DEVICES, why=NO_QUEUE,
        mutants={
            "told_by_size": together(
                replaced("runner.devices.memory", "PageLocked.kind", told_by_size),
                replaced("runner.devices.cuda_memory", "HostMemory.kind", told_by_size),
            ),
        },
    ),
)  # fmt: skip
