"""Write-after-read hazards of device tensors: a copy on a stream of its own may overwrite what a forward still reads.

On one stream this cannot happen. So where copies have their own stream, each copy into a device tensor gets a row in
the table `buffers` too, with memory `device` and the set of device buffers as its slot. Its hazard is

    possible  the copy into the set is not ordered behind the set's last reader (the row is the one of that copy)
    observed  behind the step's last reader the target is not what the step's copy brought (`verify` only)
"""

from __future__ import annotations

from collections import Counter

import torch

from ...instrumentation.probe.ledger import Ledger
from ..devices.base import Device
from .arrivals import Arrivals, Sum
from .road import Road

SUFFIX = " (device)"
"""Behind the buffer's name: the host side keeps the plain one."""
MEMORY = "device"
Row = tuple[object, ...]


class TargetUses:
    """Uses of one buffer's device tensors. `reserved_bytes` is null: nothing is page-locked for them."""

    def __init__(self, device: Device, ledger: Ledger, name: str, road: Road, *, verify: bool) -> None:
        self._ledger = ledger
        self._name = name + SUFFIX
        self._sets = road.sets
        self._uses: Counter[int] = Counter()
        self._checks = Arrivals(device, ledger, self._name, "compute") if verify else None
        self._step: list[tuple[int | None, Row, str, Sum, torch.Tensor]] = []
        if verify:
            road.behind_readers.append(self._read)

    def sent(self, dst: torch.Tensor, arrived: Sum | None) -> None:
        """A copy into `dst`, a part of the step's set, was enqueued; `arrived` is the checksum of what it brought."""
        current = self._sets.current
        reuse_count = self._uses[current]
        self._uses[current] = reuse_count + 1
        capacity_bytes = dst.untyped_storage().nbytes()
        row = (self._name, capacity_bytes, dst.nbytes, None, MEMORY, current, reuse_count, None)
        hazard = "possible" if self._sets.exposed else "none"
        if self._checks is None or arrived is None:
            self._ledger.add("buffers", *row, hazard)
        else:
            self._step.append((self._ledger.step, row, hazard, arrived, dst))

    def _read(self) -> None:
        waiting, self._step = self._step, []
        assert self._checks is not None, "only with checksums is anything left to do"
        for step, row, hazard, arrived, dst in waiting:
            self._checks.expect(step, row, hazard, arrived, dst)

    def flush(self) -> None:
        """Write the rows whose checksums are there."""
        if self._checks is not None:
            self._checks.flush()
