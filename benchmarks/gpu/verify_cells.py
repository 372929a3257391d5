"""`perf verify cells` with its raw turns kept: `python3 benchmarks/gpu/verify_cells.py OUT [--handoff async_auto]`.

OUT/cells.json holds of each launch the steps of each arm's blocks with their periods and the host's waits, and the
forwards of all steps (arms without events: their twins' with events). OUT/table.txt is what the check says of them.
`--again OUT` judges the turns of an earlier run once more, and runs nothing.

With two steps in flight: two minutes on an H200. All cells: five.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from stepscope.analysis.blocks import Block
from stepscope.analysis.columns import Columns
from stepscope.analysis.forwards import Forwards, Jump, jump_of, net_blocks, settled, steps_of
from stepscope.analysis.mirrored import mirrored_difference, round_differences
from stepscope.experiments.verify.cell_specs import HANDOFFS, TURNS, cell_specs
from stepscope.experiments.verify.cells import Arms, Key, judged, measured_cells

LEFT_OUT = 2
"""First rounds that don't count, where a stored run does not say."""


class Turns:
    """What every launch gave, as it is stored."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []

    def __call__(self, key: Key, arms: Arms, forwards: Mapping[str, Forwards]) -> None:
        stored = {}
        for name, (one, blocks) in arms.items():
            steps = Columns(one.recording.table("steps"))
            number, waits = steps.ints("step")[0].tolist(), steps.ints("host_wait_ns")[0].tolist()
            wait_of = dict(zip(number, waits, strict=True))
            ordered = sorted(blocks, key=lambda block: block.order)
            stored[name] = {
                "blocks": [
                    {"order": block.order, "steps": own.tolist(), "periods_ns": list(block.periods_ns),
                     "host_wait_ns": [wait_of[step] for step in own.tolist()]}
                    for block, own in zip(ordered, steps_of(one.recording, ordered), strict=True)
                ],
                "forward_ns": sorted(forwards.get(name, {}).items()),
            }  # fmt: skip
        self.launches.append({"cell": list(key), "left_out": TURNS[key[1]].left_out, "arms": stored})
        print(*key, told(self.launches[-1]), flush=True)


def told(launch: Mapping[str, Any]) -> str:
    """first - skip and last - first of a launch: as paces, outside the forwards, and in them; rounds all counted."""
    arms, left_out = launch["arms"], launch.get("left_out", LEFT_OUT)
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


def _by_last(forwards: Mapping[str, Forwards], left: str, right: str) -> Jump | None:
    """In runs whose arms took turns as first, last, skip."""
    legs = [jump_of(forwards["last"], forwards[name]) for name in (right, left)]
    return legs[0].less(legs[1]) if legs[0] is not None and legs[1] is not None else None


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
        for launch in json.loads((asked.again / "cells.json").read_text()):
            print(*launch["cell"], told(launch))
        return
    if asked.out is None:
        parser.error("a folder for the turns is needed")
    asked.out.mkdir(parents=True, exist_ok=True)
    turns = Turns()
    specs = cell_specs(asked.device, quick=asked.quick)
    chosen = [spec for spec in specs if asked.handoff in (None, spec["runner"]["token_handoff"])]
    findings = judged(measured_cells(chosen, turns))
    (asked.out / "cells.json").write_text(json.dumps(turns.launches, separators=(",", ":")))
    lines = [f"{'passed' if one.passed else 'failed'}  {one.planted}: {one.found}" for one in findings]
    (asked.out / "table.txt").write_text("\n".join(lines) + "\n")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
