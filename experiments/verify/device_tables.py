"""Checks of device tables: copies on a stream of their own that may overtake the forward that still reads the table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch

from ...instrumentation.probe import Ledger
from ...instrumentation.recording.schema import BUFFERS
from ...runner.buffers.factory import BufferFactory
from ...runner.buffers.targets import SUFFIX
from ...runner.config import DeviceBuffers
from ...runner.devices.base import Device, Work
from ...runner.devices.costs import CHECK
from ...runner.devices.cuda_factory import make_cuda
from ...runner.inputs.copy_ordering import make_copy_ordering
from .check import Check, Finding, Setting, exact, replaced, within
from .gpu import NEEDS, WHY, sleep
from .pinned import DEVICES, NO_QUEUE, opened

ROWS, WIDTH, NAME = 64, 512, "planted"
_COLUMN = {column.name: at + 1 for at, column in enumerate(BUFFERS)}
Between = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TableUse:
    """What `steps` copies and reads of one device table gave: verdict a step, and what each reader found there."""

    verdicts: dict[int, str] = field(default_factory=dict)
    seen: list[torch.Tensor] = field(default_factory=list)

    @property
    def corrupt(self) -> set[int]:
        """Steps whose reader found something else than their number."""
        return {number for number, data in enumerate(self.seen) if not bool((data == number).all())}

    @property
    def observed(self) -> set[int]:
        """Steps that the tool says so of."""
        return {number for number, verdict in self.verdicts.items() if verdict == "observed"}


def use_table(
    device: Device, ledger: Ledger, buffers: DeviceBuffers, steps: int, before_read: Between, settle: Between
) -> TableUse:
    """Steps of a runner in small: copy the table on the copy stream, read it on the compute stream.

    before_read  enqueues what the reader stands behind;  settle  is called behind each step
    """
    ordering = make_copy_ordering(device, "dedicated", buffers)
    factory = BufferFactory(device, ledger, road=ordering.road, verify=True)
    table = factory.table(NAME, factory.pools(ROWS, [WIDTH]), stream=ordering.stream)
    device.synchronize()  # the zeros of the new table are another stream's work
    found = TableUse()
    for number in range(steps):
        ledger.step = number
        table.mirror[:] = number
        for row in range(ROWS):
            table.touch(row)
        ordering.before_copies()
        copy = table.publish(ROWS)
        ordering.before_readers()
        before_read(number)
        found.seen.append(device.launch("forward", table.gpu.clone, Work(CHECK), consumes=(copy,)))
        ordering.after_readers()
        settle(number)
    ledger.step = None
    device.synchronize()
    factory.flush()
    rows: list[Any] = ledger.take()["buffers"]
    mine = [row for row in rows if row[_COLUMN["buffer"]] == NAME + SUFFIX]
    found.verdicts.update({row[0]: row[_COLUMN["hazard"]] for row in mine})
    return found


def _possible(setting: Setting) -> Sequence[Finding]:
    """Hazards of the device table on idle streams: none with a guard; else possible at every reuse, never observed."""
    steps, findings = setting.count(200, 50), []
    expected: dict[DeviceBuffers, dict[str, int]] = {
        "single_guarded": {"none": steps + 1}, "double": {"none": steps + 1},
        "single_unguarded": {"none": 1, "possible": steps},
    }  # fmt: skip
    for buffers, verdicts in expected.items():
        ledger = Ledger()
        with closing(opened(setting, ledger)) as device:
            found = use_table(device, ledger, buffers, steps + 1, lambda number: None, lambda number: _idle(device))
        planted = f"{steps} reuses of a device table on idle streams, {buffers}: verdicts"
        findings.append(exact(planted, verdicts, dict(Counter(found.verdicts.values()))))
    return findings


def _idle(device: Device) -> None:
    """Wait without the tool's knowledge, so that nothing proves what is true."""
    if device.name == "cuda":
        torch.cuda.synchronize()


def _observed(setting: Setting) -> Sequence[Finding]:
    """Hazards of the device table where some forwards are delayed by 20 ms and the next step's copy overtakes them."""
    steps, findings = setting.count(200, 30), []
    kinds: tuple[DeviceBuffers, ...] = ("single_unguarded", "single_guarded", "double")
    for buffers in kinds:
        found = _raced(setting.random("tables"), steps, buffers)
        wrong = len(found.corrupt ^ found.observed)
        low, high = (1.0, 1e9) if buffers == "single_unguarded" else (0.0, 0.0)
        findings += [
            exact(f"{buffers}: steps in one set, observed or read corrupt, and not in the other", 0, wrong),
            within(f"{buffers}: corrupt reads", len(found.corrupt), low, high),
        ]
    return findings


def _raced(rng: random.Random, steps: int, buffers: DeviceBuffers) -> TableUse:
    """After a step that was not delayed everything is waited for: only its neighbour's copy can be too early."""
    delayed = [rng.random() < 0.2 for _ in range(steps)]
    ledger = Ledger()
    with closing(make_cuda(ledger)) as device:
        return use_table(
            device, ledger, buffers, steps,
            lambda number: sleep(device, 20_000) if delayed[number] else None,
            lambda number: None if delayed[number] else torch.cuda.synchronize(),
        )  # fmt: skip


CHECKS = (
    Check(
        group="pinned", name="tables_possible", point=9, run=_possible, needs=DEVICES, why=NO_QUEUE,
        mutants={
            "believes_every_order": replaced(
                "runner.devices.streams", "HappensBefore.orders", lambda whole: lambda self, op, stream, waits: True
            ),
            "guard_forgotten": replaced(
                "runner.inputs.copy_ordering", "DedicatedStreamOrdering.before_copies",
                lambda whole: lambda self: _unguarded(whole, self),
            ),
        },
    ),
    Check(
        group="pinned", name="tables_observed", point=9, run=_observed, needs=NEEDS, why=WHY,
        mutants={
            "table_checksum_blind": replaced(
                "runner.buffers.arrivals", "checksum", lambda whole: lambda tensor: whole(tensor) * 0
            ),
        },
    ),
)  # fmt: skip


def _unguarded(before_copies: Callable[[Any], None], ordering: Any) -> None:
    ordering._guarded = False
    before_copies(ordering)
