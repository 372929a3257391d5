"""What `perf verify cells` runs: sweeps of arms first, last and skip, by size, hand-off and road of the copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ROWS = 64
WIDTHS = {512: 0.125, 8192: 2.0, 32_768: 8.0}
"""Block-table width -> MiB at 64 rows of 4 bytes."""
SMALL_MIB = 0.125
BLOCK, MORE = 16, 3072
"""Tokens of a KV block, and tokens that a row may grow by."""
ROADS = {
    "compute": {"copy_stream": "compute", "device_buffers": "single_guarded"},
    "single_guarded": {"copy_stream": "dedicated", "device_buffers": "single_guarded"},
    "double": {"copy_stream": "dedicated", "device_buffers": "double"},
}
HANDOFFS = ("sync", "async_auto")
STAIRS, TILE = 8, 128
"""Rows have eight lengths in one tile of keys, or all of them would cross its border in the same step: with rows of one
length the forward grew by 60 us every 128 steps (H200), and rounds of blocks fell on those stairs in step."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How arms of one hand-off take turns.

    context      tokens of the shortest row. With two steps in flight so many that the forward, 4.8 ms then, outlasts
                 all host work (H200: 0.9 ms, 1.6 with a timed copy on a stream of its own, and 1.8 times that on a slow
                 core; 2.5 ms did not, and those cells were host-bound for a part of their steps): the device then
                 binds, and shows a copy. Under synchronous scheduling few: host work is in every period anyway, and
                 its speed changes several times a second (`analysis.gauged`): a round of three turns has to be over in
                 some 30 ms, and there have to be many
    launches     of each cell
    blocks       of each arm, in rounds that mirror each other, of which the first `left_out` don't count
    steps        counted ones of a block, behind `settle` others. With two in flight two windows' (`analysis.pace`) and
                 no more: what an arm does to its forwards is known the better the more borders there are. Without, one
                 step settles a turn: first - skip was 19, 25, 21 and 26 us in the four behind it (H200, 5 us each)
    """

    context: int
    launches: int
    blocks: int
    left_out: int
    steps: int
    settle: int


TURNS = {"sync": Turns(256, 3, 96, 6, 4, 1), "async_auto": Turns(8192, 1, 36, 4, 12, 4)}
QUICK_BLOCKS = {"sync": 20, "async_auto": 8}
ORDERS = {"sync": ("first", "last", "skip"), "async_auto": ("last", "first", "skip")}
"""With two steps in flight `first` meets either of the arms that it is compared with, at every second border between
turns: there it is told what an arm does to its forwards (`analysis.forwards`)."""


def cell_specs(
    device: str, *, quick: bool, model: str = "llama-1b", context: int | None = None
) -> list[dict[str, Any]]:
    """The sweeps of all cells; three arms of each take turns on one runner.

    Two large ones and a small one if `quick`; the small copies are null whatever their road, so one of them is run.
    Figures that are compared with |C| come of arms without events around device operations (`events` False): those
    lengthen what they time.
    """
    small = [width for width, mib in WIDTHS.items() if mib == SMALL_MIB]
    large = [width for width in WIDTHS if width not in small]

    def spec(widths: Sequence[int], roads: Sequence[str], handoff: str, **other: Any) -> dict[str, Any]:
        return _cell_spec(device, (widths, roads, handoff), model=model, context=context, **other)

    if quick:
        return [
            spec(widths, ("compute",), handoff, blocks=QUICK_BLOCKS[handoff])
            for widths, handoff in ((small, "sync"), (large[-1:], "sync"), (large[-1:], "async_auto"))
        ]
    cells = [spec(small, ("compute",), handoff, blocks=QUICK_BLOCKS[handoff]) for handoff in HANDOFFS]
    cells += [spec(large, tuple(ROADS), handoff) for handoff in HANDOFFS]
    return [*cells, spec(large[-1:], ("compute", "double"), "async_auto", events=False)]


def _cell_spec(
    device: str, cells: tuple[Sequence[int], Sequence[str], str], *, model: str, context: int | None,
    blocks: int | None = None, events: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Cells of some widths, some roads and one hand-off."""
    widths, names, handoff = cells
    turns, roads = TURNS[handoff], [ROADS[name] for name in names]
    room = min(widths) * BLOCK - TILE - MORE
    length = min(turns.context, room) if context is None else context
    most = length + TILE + MORE
    lengths = ",".join(f"{ROWS // STAIRS}*1@{length + stair * TILE // STAIRS}" for stair in range(STAIRS))
    return {
        "workload": {"case": f"cells={lengths}", "scheduler": {"reserve_output": True}},
        "runner": {
            "model": model, "graph_mode": "full", "capture_sizes": [ROWS], "slot_mapping": "host",
            "max_model_len": most, "max_num_batched_tokens": 8192, "num_blocks": ROWS * most // BLOCK + 1,
            "token_handoff": handoff,
        },
        "device": device,
        "measure": {
            "interleave": "runner.commit_order", "blocks": blocks or turns.blocks, "block_steps": turns.steps,
            "settle_steps": turns.settle, "device_events": events, "repeats": 1 if blocks else turns.launches,
        },
        "grid": {"runner.commit_order": list(ORDERS[handoff]), "runner.table_width": list(widths)},
        "zip": {f"runner.{name}": [road[name] for road in roads] for name in ("copy_stream", "device_buffers")},
    }  # fmt: skip
