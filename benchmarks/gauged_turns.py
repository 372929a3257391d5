"""How well synchronous cells of `perf verify cells` can agree: `python3 benchmarks/gauged_turns.py [--trials 500]`.

Turns of arms first, last and skip are drawn from recorded steps of an H200 (`examples/recordings/h200`), 66 in a row at
a time, in the order and number in which the check takes them. Arm skip is spared a share of what its commit range took.
How far is the figure of `analysis/gauged.py` from what was planted, and from the replay's (the midmean of the same
share of arm first's ranges), and how often is it within the tolerance? No GPU is needed.

    steps   decode: 64 rows; last: 256 rows whose table is committed last, a slower and more restless host. Waits are
            decode's in either: 256 rows of one length make the forward grow in stairs, and the cells' rows do not
    flips   the core goes at x 1.5 for 40 to 200 steps at a time, gauges at x 1.58
    late    so many steps wait 0.3 to 3 ms longer for their tokens
    touch   the share by which each gauge differs in arm skip, drawn anew in each trial (standard deviation): it should
            be 0
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from stepscope.analysis.blocks import Block
from stepscope.analysis.gauged import RANGES, GaugedBlock, gauged_blocks, gauged_difference, pairs_of
from stepscope.analysis.stats import midmean
from stepscope.analysis.tables import processes
from stepscope.experiments.interleaved import turns as turns_of
from stepscope.experiments.verify.cell_specs import TURNS
from stepscope.experiments.verify.cells import LEAST_NS, SHARE
from stepscope.instrumentation.recording.reader import Recording

H200 = Path(__file__).parents[1] / "examples" / "recordings" / "h200"
SOURCES = {"decode": "decode", "last": "default-sweep/points/*8192_steady_commit_order-last_graph_mode-full*"}
COMMIT = "commit_block_table"
TOGETHER, HELD_UP_NS, GROWTH_NS = 66, 150_000, 400
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a cell is like: arm first's range is `range_` times the recorded one, of which `share` is saved."""

    range_: float
    share: float
    late: float


COMPUTE = Kind(range_=0.6, share=0.65, late=0.01)
OWN_STREAM = Kind(range_=1.5, share=0.75, late=0.14)
CELLS = (COMPUTE, COMPUTE, OWN_STREAM, OWN_STREAM, OWN_STREAM, OWN_STREAM)


@dataclass(frozen=True, slots=True)
class Steps:
    """Recorded steps in ns: `parts` [n, 3] without the commit range, `gauges` [n, k], `commit` [n]."""

    parts: Array
    gauges: Array
    commit: Array


def steps_of(name: str) -> Steps:
    """Of a recording, with waits of `decode`. What they grow by is taken away, and a held-up commit is cut short."""
    own, waits = _recorded(name), _recorded("decode").parts[:, 1]
    count = min(len(own.parts), len(waits))
    own.parts[:count, 1] = waits[:count]
    return Steps(own.parts[:count], own.gauges[:count], own.commit[:count])


def _recorded(name: str) -> Steps:
    (folder,) = H200.glob(f"{SOURCES[name]}/recording")
    (process,) = processes(Recording.load(folder))
    number, start = (process.counted("steps").ints(column)[0] for column in ("step", "start_ns"))
    start = start[np.argsort(number)]
    (block,) = gauged_blocks(process, [Block(0, (*np.diff(start).tolist(), 0))])
    spans = process.counted("spans")
    rows = spans[spans.matches("name", COMMIT)]
    step, begin, end = (rows.ints(column)[0] for column in ("step", "start_ns", "end_ns"))
    commit = (end - begin)[np.argsort(step)]
    parts = block.parts_ns.astype(np.float64)
    parts[:, 0] -= commit
    place = np.arange(len(parts))
    usual = np.minimum(parts[:, 1], np.percentile(parts[:, 1], 98))
    parts[:, 1] -= np.polyval(np.polyfit(place, usual, 3), place) - np.median(usual)
    gauges = block.gauges_ns.astype(np.float64)
    return Steps(parts[:-1], gauges[:-1], np.minimum(commit, HELD_UP_NS)[:-1].astype(np.float64))


def trial(steps: Steps, kind: Kind, flips: bool, touch: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Planted, measured and replayed, of all launches of a cell, in ns."""
    turns = TURNS["sync"]
    touched = 1 + rng.normal(0, touch, len(RANGES))
    pairs, replayed, planted = [], [], []
    for launch in range(turns.launches):
        first, skip, losses, saved = _launch(steps, kind, flips, launch, touched, rng)
        pairs.append(pairs_of(first, skip, turns.left_out))
        replayed.append(float(midmean(np.rint(losses)) or 0))
        planted.append(float(saved.mean()))
    found = gauged_difference(pairs)
    assert found is not None
    return float(np.mean(planted)), found, float(np.mean(replayed))


def _launch(
    steps: Steps, kind: Kind, flips: bool, launch: int, touched: Array, rng: np.random.Generator
) -> tuple[list[GaugedBlock], list[GaugedBlock], Array, Array]:
    """Blocks of arms first and skip, what the replay says of arm first's counted steps, and what is saved in them."""
    turns = TURNS["sync"]
    length = turns.settle + turns.steps + 1
    arm = np.repeat((np.array(turns_of(3, turns.blocks)) + launch) % 3, length)
    place = np.arange(len(arm)) % length
    counted = (place >= turns.settle) & (place < turns.settle + turns.steps)
    begins = rng.integers(0, len(steps.parts), (-(-len(arm) // TOGETHER), 1))
    drawn = ((begins + np.arange(TOGETHER)).ravel() % len(steps.parts))[: len(arm)]
    slow = np.array(list(_speeds(len(arm), rng))) if flips else np.ones(len(arm))
    commit = kind.range_ * steps.commit[drawn] * slow
    parts, gauges = steps.parts[drawn].copy(), steps.gauges[drawn] * (1 + 1.15 * (slow - 1))[:, None]
    parts[:, [0, 2]] *= slow[:, None]
    parts[:, 0] += commit * np.where(arm == 2, 1 - kind.share, 1)
    late = rng.random(len(arm)) < kind.late
    parts[:, 1] += GROWTH_NS * np.arange(len(arm)) + late * rng.uniform(300_000, 3_000_000, len(arm))
    gauges[arm == 2] *= touched
    blocks = [
        [_block(*turn) for turn in zip(*(_cut(array[counted & (arm == one)], turns.steps) for array in (parts, gauges)),
                                       strict=True)]
        for one in (0, 2)
    ]  # fmt: skip
    own, behind = commit[counted & (arm == 0)], kind.share * commit[counted & (arm == 1)]
    share = min(1.0, float(np.median(behind) / np.median(own)))
    return blocks[0], blocks[1], share * own, kind.share * own


def _speeds(count: int, rng: np.random.Generator) -> Iterator[float]:
    slow = bool(rng.random() < 0.5)
    while count > 0:
        stretch = min(count, int(rng.integers(40, 200)))
        yield from [1.5 if slow else 1.0] * stretch
        count, slow = count - stretch, not slow


def _cut(array: Array, steps: int) -> list[Array]:
    return list(array.reshape(-1, steps, array.shape[-1]))


def _block(parts: Array, gauges: Array) -> GaugedBlock:
    whole = np.rint(parts).astype(np.int64)
    known = np.ones(len(whole), dtype=np.bool_)
    return GaugedBlock(Block(0, tuple(whole.sum(axis=1).tolist())), whole, np.rint(gauges).astype(np.int64), known)


def main() -> None:
    """Print a line a kind, and how many of six cells agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--touch", type=float, default=0.0)
    asked = parser.parse_args()
    kept = []
    for name, flips in product(SOURCES, (False, True)):
        within = {}
        for kind in (COMPUTE, OWN_STREAM):
            rng, steps = np.random.default_rng(7), steps_of(name)
            us = np.array([trial(steps, kind, flips, asked.touch, rng) for _ in range(asked.trials)]).T / 1e3
            planted, measured, replayed = us
            off = measured - replayed
            means = [value.mean() - planted.mean() for value in (measured, replayed)]
            close = np.abs(off) <= np.maximum(LEAST_NS / 1e3, SHARE * np.abs(measured))
            within[kind] = float(close.mean())
            print(
                f"{name:6} flips {flips!s:5} late {kind.late:4.0%}: planted {planted.mean():5.1f}, "
                f"measured {means[0]:+.1f} +- {measured.std():.1f}, replayed {means[1]:+.1f} +- {replayed.std():.1f}, "
                f"measured - replayed {off.mean():+.1f} +- {off.std():.1f} us, within {within[kind]:.3f}"
            )
        shares = [within[kind] for kind in CELLS]
        six = float(np.prod(shares))
        kept.append((six, six + sum(six / share * (1 - share) for share in shares if share)))
    print("of six cells all {:.3f}, five at least {:.3f}".format(*np.mean(kept, axis=0)))


if __name__ == "__main__":
    main()
