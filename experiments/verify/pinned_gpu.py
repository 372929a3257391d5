"""Checks of staged buffers on a GPU: what arrived, what was allocated, which copies the profiler calls pageable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import torch

from ...instrumentation.probe import Ledger
from ...instrumentation.recording.schema import BUFFERS, COPIES
from ...runner.buffers.factory import BufferFactory
from ...runner.buffers.guards import NoGuard
from ...runner.buffers.road import Road
from ...runner.devices.cuda import CudaDevice
from ...runner.devices.cuda_factory import make_cuda
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import KIB, NEEDS, WHY, sleep, traced

_AT = {column.name: at + 1 for at, column in enumerate(COPIES)}
_HAZARD = [column.name for column in BUFFERS].index("hazard") + 1
SLOT_BYTES = 12 << 20
ODD_MIB, ODD_LOCKED = 129.5, 268_435_456


def _observed(setting: Setting) -> Sequence[Finding]:
    """Hazards of a staged buffer without its guard, with 20 ms of work before some copies; truth is what arrived."""
    found = []
    for guarded in (False, True):
        corrupt, observed = _race(setting, setting.count(200, 30), guarded=guarded)
        planted = "guard on" if guarded else "guard removed, copies behind 20 ms of work at random"
        wrong = len(set(corrupt) ^ set(observed))
        found += [
            exact(f"{planted}: steps in one set, observed or arrived corrupt, and not in the other", 0, wrong),
            within(f"{planted}: corrupt steps", len(corrupt), *((0, 0) if guarded else (1, 1e9))),
        ]
    return found


def _race(setting: Setting, steps: int, *, guarded: bool) -> tuple[list[int], list[int]]:
    rng, ledger = setting.random("race"), Ledger()
    arrived = []
    with closing(make_cuda(ledger)) as device:
        road = Road() if guarded else Road(make_guard=lambda *_: NoGuard())
        factory = BufferFactory(device, ledger, "pinned_ring", ring_slots=2, road=road, verify=True)
        buffer = factory.buffer("planted", 4096, torch.int32)
        for number in range(steps):
            ledger.step = number
            if rng.random() < 0.2:
                sleep(device, 20_000)
            buffer.acquire()[:] = number
            buffer.publish(4096)
            arrived.append(buffer.gpu.clone())  # behind the copy, before the next one
        ledger.step = None
        device.synchronize()
        factory.flush()
        rows: list[Any] = ledger.take()["buffers"]
    corrupt = [number for number, data in enumerate(arrived) if not bool((data == number).all())]
    return corrupt, sorted(row[0] for row in rows if row[_HAZARD] == "observed")


def _allocations(setting: Setting) -> Sequence[Finding]:
    """A ring of two slots allocates twice, however often it is used; a buffer of 129.5 MiB locks 256 MiB."""
    ledger = Ledger()
    with closing(make_cuda(ledger)) as device:
        _give_back()
        before = _stat("num_host_alloc")
        buffer = BufferFactory(device, ledger, "pinned_ring", ring_slots=2).buffer("ring", SLOT_BYTES // 4, torch.int32)
        uses = setting.count(1_000, 100)
        for number in range(uses):
            buffer.acquire()[:8] = number
            buffer.publish(8)
        rings = _stat("num_host_alloc") - before
        held = _stat("allocated_bytes.current")
        kept = device.host_tensor((round(ODD_MIB * (1 << 20)),), torch.uint8, pinned=True)
        grown = _stat("allocated_bytes.current") - held
        device.synchronize()
        del kept
    return [
        exact(f"a ring of 2, used {uses} times: host allocations", 2, rings),
        exact(f"{ODD_MIB} MiB: bytes locked", ODD_LOCKED, grown),
    ]


def _give_back() -> None:
    """Page-locked blocks that torch keeps would serve the ring as well; not every build of it can give them back."""
    empty_cache = getattr(torch._C, "_host_emptyCache", None)
    if empty_cache is not None:
        empty_cache()


def _stat(name: str) -> int:
    return int(torch.cuda.host_memory_stats().get(name, 0))


def _pageable(setting: Setting) -> Sequence[Finding]:
    """Copies of random size from pageable and pinned memory: those recorded as pageable against the profiler's list."""
    rng, ledger = setting.random("pageable"), Ledger()
    count = setting.count(200, 60)
    with closing(make_cuda(ledger)) as device:
        planted = [(rng.choice((4, 16, 64, 256, 1024)), rng.random() < 0.5) for _ in range(count)]

        def work() -> None:
            for size, pinned in planted:
                _copy_one(device, size * KIB, pinned=pinned)

        work()
        device.synchronize()
        ledger.take()
        events = [event for event in traced(work) if event.category == "gpu_memcpy"]
        device.synchronize()
        rows: list[Any] = ledger.take()["copies"]
    theirs = [event.size_bytes for event in events if "Pageable -> Device" in event.name]
    ours = [row[_AT["size_bytes"]] for row in rows if row[_AT["src_kind"]] == "pageable"]
    return [
        exact("sizes of pageable copies, one by one: ours unlike the profiler's", 0, _unlike(ours, theirs)),
        exact("pageable copies, 4 KiB and more", sum(not pinned for _, pinned in planted), len(theirs)),
    ]


def _copy_one(device: CudaDevice, size_bytes: int, *, pinned: bool) -> None:
    host = device.host_tensor((size_bytes,), torch.uint8, pinned=pinned)
    device.copy_to_device(device.empty((size_bytes,), torch.uint8), host, buffer="planted")


def _unlike(ours: Sequence[int], theirs: Sequence[int | None]) -> int:
    return abs(len(ours) - len(theirs)) + sum(a != b for a, b in zip(ours, theirs, strict=False))


CHECKS = (
    Check(
        group="pinned", name="observed", point=9, run=_observed, needs=NEEDS, why=WHY,
        mutants={
            "checksum_blind": replaced("runner.buffers.arrivals", "checksum", lambda whole: lambda t: whole(t) * 0),
        },
    ),
    Check(
        group="pinned", name="allocations", point=10, run=_allocations, needs=NEEDS, why=WHY, seeded=False,
        mutants={
            "a_slot_more": replaced(
                "runner.buffers.slots", "PinnedRing.__init__",
                lambda whole: lambda self, device, shape, dtype, count, guard: whole(
                    self, device, shape, dtype, count + 1, guard
                ),
            ),
        },
    ),
    Check(
        group="pinned", name="pageable", point=10, run=_pageable, needs=NEEDS, why=WHY,
        mutants={
            "small_is_pinned": replaced(
                "runner.devices.cuda_memory", "HostMemory.kind",
                lambda whole: lambda self, tensor: whole(self, tensor) if tensor.numel() > 4096 else "pinned",
            ),
        },
    ),
)  # fmt: skip
