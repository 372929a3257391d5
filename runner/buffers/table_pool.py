"""Device tables of all KV cache groups in one piece of memory, so that one kernel serves them all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..devices.base import Device


class TablePool:
    """Tables [rows, width_g] int32, one a group, laid end to end in `flat`.

    host_tables    the same memory for the host where the device reads host memory; else empty
    bases, widths  [groups] int64 on the device: where each table begins in `flat`, and its row length. Addresses are
                   computed in 64 bits: rows x width summed over groups may pass 2^31.
    """

    def __init__(self, device: Device, rows: int, widths: Sequence[int], *, shared: bool = False) -> None:
        starts = np.concatenate(([0], np.cumsum(np.asarray(widths, dtype=np.int64) * rows)))
        self.rows = rows
        size = (int(starts[-1]),)
        host = device.host_tensor(size, torch.int32, pinned=True) if shared else None
        self.flat = device.empty(size, torch.int32) if host is None else device.map_host(host)
        borders = list(zip(starts[:-1].tolist(), starts[1:].tolist(), widths, strict=True))
        self.tables = tuple(self.flat[begin:end].view(rows, width) for begin, end, width in borders)
        self.host_tables = tuple(
            host[begin:end].view(rows, width) for begin, end, width in borders if host is not None
        )
        self.bases = device.empty((len(widths),), torch.int64)
        self.bases.copy_(torch.from_numpy(starts[:-1]))
        self.widths = device.empty((len(widths),), torch.int64)
        self.widths.copy_(torch.tensor(list(widths), dtype=torch.int64))
