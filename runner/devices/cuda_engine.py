"""Putting the begin event of a queued copy on the copy engine.

An event is written by the engine that its stream used last. Behind a kernel that is not the one that runs the copy:
the event fires when the kernel ends, and the copy begins when its engine has noticed, 1.5 to 10 us later, evenly
spread (H200). Behind a copy it is the same engine, and the gap is constant. So a small copy, of nothing, is sent ahead
of a timed one: it waits for the kernel, and the begin event fires behind it. Copies of less than 2 KiB do not help: no
copy engine runs them.

This changes the measured program: the copy ends about 1 us later and the host makes one more call (4 us, 12 with cold
caches), only where the copy is queued behind a kernel: then the host is ahead of the device. What it gives is a start
known to 1.5 us instead of 6.
"""

from __future__ import annotations

import torch
from torch.autograd import profiler

ENGINE_BYTES = 2 * 1024
"""Copies of this size and above are run by a copy engine."""
PRIMER_BYTES = 3 * 1024
"""A size of its own, so that primers can be told in a profiler's trace."""


class Primer:
    """A buffer on either side that only primers read and write; nobody looks at what is in it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._sides: tuple[torch.Tensor, torch.Tensor] | None = None

    def enqueue(self, direction: str) -> None:
        """On the current stream."""
        if self._sides is None:
            host = torch.zeros(PRIMER_BYTES, dtype=torch.uint8, pin_memory=True)
            self._sides = host, torch.zeros(PRIMER_BYTES, dtype=torch.uint8, device=self._device)
        host, gpu = self._sides
        dst, src = (gpu, host) if direction == "h2d" else (host, gpu)
        dst.copy_(src, non_blocking=True)


def under_cupti() -> bool:
    """Whether torch.profiler records in this process now: what runs on the GPU then has CUPTI's own times around it."""
    return bool(getattr(profiler, "_is_profiler_enabled", False))
