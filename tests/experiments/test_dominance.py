"""What counts as larger than a point that ran out of memory: only what cannot need less of it."""

from __future__ import annotations

from typing import Any

import pytest
from stepscope.experiments.dominance import Dominance
from stepscope.experiments.plan import make_plan

BASE: dict[str, Any] = {"workload": {"regime": "steady"}, "device": "sim", "measure": {"steps": 10}}


def skipped(axis: str, failed: object, other: object, regime: str = "steady") -> bool:
    """Whether the point with `other` is left out after the one with `failed` ran out of memory."""
    tree = {**BASE, "workload": {"regime": regime}, "grid": {axis: [failed, other]}}
    first, second = make_plan([("mine.yaml", tree)], {}).points
    dominance = Dominance()
    dominance.add(first)
    return dominance.over(second) is not None


@pytest.mark.parametrize(
    ("axis", "failed", "other"),
    [
        ("workload.settings.long_prefill_token_threshold", 0, 512),
        ("workload.settings.prefill_schedule_interval", 1, 4),
        ("workload.settings.block_size", 64, 128),
        ("workload.seed", 1, 2),
        ("measure.steps", 100_000, 10),
        ("measure.blocks", 8000, 8),
        ("measure.keep", "recording", "blocks"),
        ("measure.device_events", True, False),
        ("measure.warmup_steps", 9, 2),
    ],
)
def test_what_may_need_less_memory_is_tried(axis: str, failed: object, other: object) -> None:
    assert not skipped(axis, failed, other)


def test_a_longer_prefix_leaves_less_to_compute() -> None:
    assert not skipped("workload.settings.prefix_len", 64, 128, regime="prefix_storm")


@pytest.mark.parametrize(
    ("axis", "failed", "other"),
    [
        ("workload.settings.num_reqs", 8, 16),
        ("workload.settings.prompt_len", 32, 64),
        ("runner.table_width", 512, 8192),
        ("runner.ring_slots", 2, 3),
        ("measure.steps", 10, 20),
    ],
)
def test_what_cannot_need_less_is_left_out_in_that_direction_only(axis: str, failed: object, other: object) -> None:
    assert skipped(axis, failed, other)
    assert not skipped(axis, other, failed)
