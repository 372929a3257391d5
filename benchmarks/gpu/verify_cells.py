"""`perf verify cells` with its raw turns kept: `python3 benchmarks/gpu/verify_cells.py OUT [--handoff async_auto]`.

OUT/cells.json holds of each launch the steps of each arm's blocks with their periods and the host's waits, and the
forwards of all steps (arms without events: their twins' with events); synchronous ones in parts and with their gauges
(`analysis.gauged`); it is written anew behind each launch, so a run that is cut short keeps what was done.
OUT/table.txt is what the check says of them. `--again OUT` judges the turns of an earlier run once more, and runs
nothing; of a run that was cut short it says how much is there.

With two steps in flight: two minutes on an H200. All cells: four and a half.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.blocks import Block
from stepscope.analysis.columns import Columns
from stepscope.analysis.forwards import Forwards, Jump, jump_of, net_blocks, settled, steps_of
from stepscope.analysis.gauged import (
    RANGES,
    GaugedBlock,
    gauged_blocks,
    gauged_difference,
    pairs_of,
    parts_difference,
)
from stepscope.analysis.mirrored import mirrored_difference, round_differences
from stepscope.analysis.stats import midmean
from stepscope.experiments.files import write_atomically
from stepscope.experiments.verify.cell_specs import HANDOFFS, TURNS, cell_specs
from stepscope.experiments.verify.cells import Arms, Key, cell_launches, judged, measured_cells

LEFT_OUT = 2
"""First rounds that don't count, where a stored run does not say."""


class Turns:
    """What every launch gave, as it is stored in `file` behind each of `planned` launches."""

    def __init__(self, file: Path, planned: int) -> None:
        self._file, self._planned = file, planned
        self.launches: list[dict[str, Any]] = []

    def __call__(self, key: Key, arms: Arms, forwards: Mapping[str, Forwards]) -> None:
        stored = {}
        for name, (one, blocks) in arms.items():
            steps = Columns(one.recording.table("steps"))
            number, waits = steps.ints("step")[0].tolist(), steps.ints("host_wait_ns")[0].tolist()
            wait_of = dict(zip(number, waits, strict=True))
            ordered = sorted(blocks, key=lambda block: block.order)
            parts = gauged_blocks(one.recording, ordered) if key[1] == "sync" else []
            stored[name] = {
                **({"gauged": [_stored(own) for own in parts]} if parts else {}),
                "blocks": [
                    {"order": block.order, "steps": own.tolist(), "periods_ns": list(block.periods_ns),
                     "host_wait_ns": [wait_of[step] for step in own.tolist()]}
                    for block, own in zip(ordered, steps_of(one.recording, ordered), strict=True)
                ],
                "forward_ns": sorted(forwards.get(name, {}).items()),
            }  # fmt: skip
        self.launches.append(
            {"cell": list(key), "left_out": TURNS[key[1]].left_out, "planned": self._planned, "arms": stored}
        )
        write_atomically(self._file, json.dumps(self.launches, separators=(",", ":")))
        print(*key, told(self.launches[-1]), flush=True)


def _stored(block: GaugedBlock) -> dict[str, Any]:
    return {
        "parts_ns": block.parts_ns.tolist(), "gauges_ns": block.gauges_ns.tolist(), "known": block.known.tolist(),
    }  # fmt: skip


def told(launch: Mapping[str, Any]) -> str:
    """first - skip and last - first of a launch. Synchronous: part by part, and what the gauges differ by, which should
    be nothing. Else as paces, outside the forwards, and in them; rounds all counted.
    """
    arms, left_out = launch["arms"], launch.get("left_out", LEFT_OUT)
    if all("gauged" in arm for arm in arms.values()):
        return "; ".join(_in_parts(arms, *names, left_out) for names in (("first", "skip"), ("last", "first")))
    plain, net, forwards, steps = {}, {}, {}, {}
    for name, arm in arms.items():
        plain[name] = [Block(block["order"], tuple(block["periods_ns"])) for block in arm["blocks"]]
        forwards[name] = dict(map(tuple, arm["forward_ns"]))
        steps[name] = [np.array(block["steps"]) for block in arm["blocks"]]
        net[name] = net_blocks(plain[name], steps[name], forwards[name])
    counted = settled(forwards, steps, left_out)
    said = []
    for left, right in (("first", "skip"), ("last", "first")):
        figures = [
            mirrored_difference(round_differences(of[left], of[right], left_out)) for of in (plain, net)
        ]
        inside = jump_of(counted[left], counted[right]) or _by_last(counted, left, right)
        figures += [None, None] if inside is None else [inside.ns, inside.half_ns]
        values = (f"{value / 1e3:.1f}" if value is not None else "null" for value in figures)
        said.append("{} - {}: pace {}, outside the forward {}, in it {} +- {} us".format(left, right, *values))
    return "; ".join(said)


def _in_parts(arms: Mapping[str, Any], left: str, right: str, left_out: int) -> str:
    blocks = {
        name: [
            GaugedBlock(
                Block(block["order"], tuple(block["periods_ns"])),
                *(np.array(own[key]) for key in ("parts_ns", "gauges_ns", "known")),
            )
            for block, own in zip(arms[name]["blocks"], arms[name]["gauged"], strict=True)
        ]
        for name in (left, right)
    }
    pairs = pairs_of(blocks[left], blocks[right], left_out)
    figures = {"whole": gauged_difference([pairs]), **(parts_difference([pairs]) or {})}
    gauges = {name: midmean(pairs.gauges_ns[:, at]) for at, name in enumerate(RANGES)}
    said = (
        ", ".join(f"{name} {value / 1e3:.1f}" for name, value in found.items() if value is not None)
        for found in (figures, gauges)
    )
    return "{} - {}: {} us (gauges: {})".format(left, right, *said)


def _by_last(forwards: Mapping[str, Forwards], left: str, right: str) -> Jump | None:
    """In runs whose arms took turns as first, last, skip."""
    legs = [jump_of(forwards["last"], forwards[name]) for name in (right, left)]
    return legs[0].less(legs[1]) if legs[0] is not None and legs[1] is not None else None


def judge_again(stored: Sequence[Mapping[str, Any]]) -> None:
    """Print what the turns of an earlier run say, and how many launches are missing where that is known."""
    for launch in stored:
        print(*launch["cell"], told(launch))
    planned = stored[-1].get("planned", len(stored)) if stored else 0
    if len(stored) < planned:
        print(f"{len(stored)} of {planned} launches are there: the run was cut short")


def main() -> None:
    """Measure, or judge again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--handoff", choices=HANDOFFS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", type=Path)
    asked = parser.parse_args()
    if asked.again is not None:
        judge_again(json.loads((asked.again / "cells.json").read_text()))
        return
    if asked.out is None:
        parser.error("a folder for the turns is needed")
    asked.out.mkdir(parents=True, exist_ok=True)
    specs = cell_specs(asked.device, quick=asked.quick)
    chosen = [spec for spec in specs if asked.handoff in (None, spec["runner"]["token_handoff"])]
    findings = judged(measured_cells(chosen, Turns(asked.out / "cells.json", len(cell_launches(chosen)))))
    lines = [f"{'passed' if one.passed else 'failed'}  {one.planted}: {one.found}" for one in findings]
    (asked.out / "table.txt").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
