"""Holding the garbage collector back while many small objects are made, none of them in a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_held_back() -> Iterator[None]:
    """No cycle collection inside; reference counting goes on. Also usable as a decorator.

    A replay makes some hundred thousand tuples, a trace has millions of events. Left alone, the collector walks all
    objects of the process again and again meanwhile, a fifth to a third of the time. Where it was off it stays off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
