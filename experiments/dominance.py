"""Points that ask for no less of anything than one that ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .point import Point, parameters

SIZES = frozenset({
    "runner.max_num_seqs", "runner.max_num_batched_tokens", "runner.max_model_len", "runner.num_blocks",
    "runner.table_width", "runner.ring_slots", "runner.max_capture_size",
})  # fmt: skip
"""Parameters that cost memory when they grow; numbers under `workload.settings` do too."""
_LENGTHS = ("measure.",)
"""How long a point is measured decides nothing about what fits."""

Leaves = dict[str, Any]


class Dominance:
    """Remembers points that ran out of memory, and finds those that would too."""

    def __init__(self) -> None:
        self._failed: list[tuple[Point, Leaves]] = []

    def add(self, point: Point) -> None:
        """`point` ran out of memory."""
        self._failed.append((point, _leaves(point)))

    def over(self, point: Point) -> Point | None:
        """A point that ran out of memory and is smaller than `point` in some sizes, and equal in everything else."""
        leaves = _leaves(point)
        return next((failed for failed, small in self._failed if _at_least(leaves, small)), None)


def _leaves(point: Point) -> Leaves:
    return dict(_flat(parameters(point.spec), ""))


def _flat(tree: Mapping[str, Any], where: str) -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        path = f"{where}.{name}" if where else name
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        elif not path.startswith(_LENGTHS):
            yield path, value


def _at_least(large: Leaves, small: Leaves) -> bool:
    names = large.keys() | small.keys()
    return all(_fits(name, large.get(name), small.get(name)) for name in names)


def _fits(name: str, large: Any, small: Any) -> bool:
    if large == small:
        return True
    grows = name in SIZES or name.startswith("workload.settings.")
    return grows and type(large) is int and type(small) is int and large > small
