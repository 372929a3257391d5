"""The random numbers of one seeded request: the n-th number is the same in every run, whatever is preempted."""

from __future__ import annotations

from collections import deque

import torch

REMEMBERED = 256
"""Numbers kept for a return: far more than the steps in flight can draw."""


class SeededStream:
    """Uniform numbers in [0, 1) from a seed, on the host: a number drawn on a device would have to be waited for.

    A token that is dropped while it is in flight (its request was preempted) is sampled again later, and has to use
    the same number again: `give_back` returns what was drawn for it.
    """

    __slots__ = ("_again", "_drawn", "_generator", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generator = torch.Generator()
        self._generator.manual_seed(seed)
        self._drawn: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)  # step, number
        self._again: deque[float] = deque()

    def number(self, step: int) -> float:
        """The next number, drawn in `step`."""
        if self._again:
            drawn = self._again.popleft()
        else:
            drawn = float(torch.rand((), dtype=torch.float64, generator=self._generator))
        self._drawn.append((step, drawn))
        return drawn

    def give_back(self, after_step: int) -> None:
        """What was drawn in steps behind `after_step` was for nothing: the next numbers are these."""
        while self._drawn and self._drawn[-1][0] > after_step:
            self._again.appendleft(self._drawn.pop()[1])
