"""Points that ask for no less of anything than one that ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .point import Point, parameters

SIZES = frozenset({
    *(f"runner.{name}" for name in (
        "max_num_seqs", "max_num_batched_tokens", "max_model_len", "num_blocks", "table_width", "ring_slots",
        "max_capture_size",
    )),
    *(f"workload.settings.{name}" for name in (
        "max_num_seqs", "max_num_batched_tokens", "max_model_len", "num_blocks", "num_reqs", "num_requests", "num_long",
        "prompt_len", "prompt_low", "prompt_high", "long_prompt_len", "suffix_len", "long_len", "short_len",
        "output_len", "output_low", "output_high", "long_output_len", "short_output_len",
    )),
    *(f"measure.{name}" for name in (
        "repeats", "warmup_steps", "steps", "steps_modelled", "blocks", "block_steps", "settle_steps",
    )),
})  # fmt: skip
"""Parameters with which a point needs no less memory when they grow: sequences grow while they are measured.

Any other has to be equal. A number may well make a point smaller: of `long_prefill_token_threshold` 0 is the largest,
and a longer prefix leaves less to compute.
"""

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
        else:
            yield path, value


def _at_least(large: Leaves, small: Leaves) -> bool:
    names = large.keys() | small.keys()
    return all(_fits(name, large.get(name), small.get(name)) for name in names)


def _fits(name: str, large: Any, small: Any) -> bool:
    if large == small:
        return True
    return name in SIZES and type(large) is int and type(small) is int and large > small
