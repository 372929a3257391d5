"""The replay against the counterfactual: arms first, last and skip in turns, by size, hand-off and road of the copy.

The replay sees arm `first`, and of arm `last` what the host's range around the copy takes behind other calls of its
step (`analysis.exposure.commit_step`); of arm `skip`, which it has to foretell, nothing.

With two steps in flight a figure is that of the time outside the forwards, and what the arms do to the forwards, which
is told beside it: forwards of different steps differ by more than a copy is worth (`analysis.forwards`). Arms without
events have no device times. Their steps are those of the arms with events, row by row, and so are their forwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...analysis.arms import COPIES
from ...analysis.blocks import Block
from ...analysis.exposure import commit_step
from ...analysis.forwards import Forwards, Jump, forwards_of, jump_of, mean_jump, net_blocks, settled, steps_of
from ...analysis.gauged import gauged_blocks, gauged_difference, pairs_of
from ...analysis.mirrored import kept_waiting, mirrored_difference, round_differences
from ...analysis.stats import Number
from ...instrumentation.recording.reader import Recording
from ..launch_groups import measure_launch
from ..launches import launches
from ..plan import make_plan
from ..point import Point
from ..session import Measured
from ..spec import PointSpec
from ..summary import summary_of
from .cell_specs import ROADS, SMALL_MIB, TURNS, WIDTHS, cell_specs
from .check import Check, Finding, Setting, exact, replaced, within

LEAST_NS, SHARE = 8_000, 0.1
Arms = Mapping[str, tuple[Measured, Sequence[Block]]]
"""Commit order -> what it gave in one launch."""
Key = tuple[int, str, str, bool]
"""Width, hand-off, road, events: what one cell is."""
Seen = Callable[[Key, Arms, Mapping[str, Forwards]], object]
"""Is told what a launch gave: the arms, and the forwards that they were held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One setting of size, hand-off and road, with or without events around device operations. Times in ns.

    order_ns      last - first, measured;   skip_ns  first - skip, measured;   None with too few blocks
    replayed_ns   the replay's answer to first - skip, None without one
    copy_ns       |C|; None without events, and of large tables under synchronous scheduling, where nobody asks
    exposed       whether single copies were given an exposure
    forward       of skip_ns, what is in the forwards themselves, measured;   None under synchronous scheduling
    late          rounds that count for no arm: the host was too slow in them for the device to bind
    """

    width: int
    handoff: str
    road: str
    events: bool
    order_ns: Number | None
    skip_ns: Number | None
    replayed_ns: Number | None
    copy_ns: Number | None
    exposed: bool = False
    late: int = 0
    forward: Jump | None = None

    @property
    def mib(self) -> float:
        """Size of the table."""
        return WIDTHS.get(self.width, 0.0)

    @property
    def name(self) -> str:
        """As a finding says it."""
        return f"{self.mib:g} MiB, {self.handoff}, {self.road}{'' if self.events else ', without events'}"


def cell_launches(specs: Sequence[dict[str, Any]]) -> list[list[Point]]:
    """The launches that measure the cells of `specs`, in order; the arms of each."""
    return launches(make_plan([(f"verify-{at}", spec) for at, spec in enumerate(specs)], {}).points)


def measured_cells(specs: Sequence[dict[str, Any]], seen: Seen = lambda *launch: None) -> list[Cell]:
    """Every cell, measured in this process. Launches of one cell are put together; `seen` is told of each."""
    found: dict[Key, list[_Launch]] = {}
    forwards: dict[Key, Mapping[str, Forwards]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for group in cell_launches(specs):
            arms: dict[str, tuple[Measured, Sequence[Block]]] = {
                point.spec.runner.commit_order: (measured, [_block(block) for block in blocks])
                for point, _, measured, blocks in measure_launch(group, Path(folder), lambda: False)
            }
            key = _key(group[0].spec)
            if key[-1]:
                forwards[key] = {name: forwards_of(one.recording) for name, (one, _) in arms.items()}
            twins = forwards.get((*key[:-1], True), {})
            found.setdefault(key, []).append(_launch(key, arms, twins))
            seen(key, arms, twins)
    return [_cell(key, measured) for key, measured in found.items()]


@dataclass(frozen=True, slots=True)
class _Launch:
    """What one launch of a cell gave: differences of its steps, or of rounds (see `_cell`), the rounds left out as too
    late, and of arms with events the replay's answer.
    """

    order: Sequence[Any]
    skip: Sequence[Any]
    late: int
    replayed_ns: Number | None = None
    copy_ns: Number | None = None
    exposed: bool = False
    order_forward: Jump | None = None
    skip_forward: Jump | None = None


def _key(spec: PointSpec) -> Key:
    runner = spec.runner
    road = {"copy_stream": runner.copy_stream, "device_buffers": runner.device_buffers}
    name = next(name for name, values in ROADS.items() if values == road)
    return int(runner.table_width or 0), runner.token_handoff, name, spec.measure.device_events


def _launch(key: Key, arms: Arms, forwards: Mapping[str, Forwards]) -> _Launch:
    width, handoff, _, events = key
    left_out = TURNS[handoff].left_out
    found = _gauged(arms, left_out) if handoff == "sync" else _paced(arms, left_out, forwards)
    if not events:
        return found
    found = replace(found, replayed_ns=replayed_ns(arms["first"][0].recording, arms["last"][0].recording))
    if handoff == "sync" and WIDTHS.get(width) != SMALL_MIB:
        return found
    metrics = [summary_of(arms[name][0])["metrics"] for name in ("first", "last")]
    copies = [values[name] for values in metrics for name in COPIES if values.get(name) is not None]
    exposed = metrics[0].get("exposed_p50_ns") is not None
    return replace(found, copy_ns=min(copies, default=None), exposed=exposed)


def _gauged(arms: Arms, left_out: int) -> _Launch:
    gauged = {name: gauged_blocks(one.recording, blocks) for name, (one, blocks) in arms.items()}
    order = pairs_of(gauged["last"], gauged["first"], left_out)
    return _Launch([order], [pairs_of(gauged["first"], gauged["skip"], left_out)], 0)


def _paced(arms: Arms, left_out: int, forwards: Mapping[str, Forwards]) -> _Launch:
    steps = {name: steps_of(one.recording, blocks) for name, (one, blocks) in arms.items()}
    turns = {name: net_blocks(blocks, steps[name], forwards.get(name, {})) for name, (_, blocks) in arms.items()}
    fit = [kept_waiting(one.recording, blocks) for one, blocks in arms.values()]
    late = frozenset(number for number, waited in enumerate(zip(*fit, strict=False)) if not all(waited))
    order = round_differences(turns["last"], turns["first"], left_out, late)
    skip = round_differences(turns["first"], turns["skip"], left_out, late)
    own = settled(forwards, steps, left_out)
    return _Launch(
        order, skip, sum(number >= left_out for number in late),
        order_forward=jump_of(own["last"], own["first"]), skip_forward=jump_of(own["first"], own["skip"]),
    )  # fmt: skip


def _cell(key: Key, launches: Sequence[_Launch]) -> Cell:
    """The host binds under synchronous scheduling: there its speed is gauged. With two steps in flight the device does:
    there paces are compared, and growth from step to step is cancelled.
    """
    width, handoff, road, events = key
    order, skip = ([value for one in launches for value in getattr(one, name)] for name in ("order", "skip"))
    replayed = [one.replayed_ns for one in launches if one.replayed_ns is not None]
    copies = [one.copy_ns for one in launches if one.copy_ns is not None]
    cell = Cell(
        width=width, handoff=handoff, road=road, events=events, order_ns=None, skip_ns=None,
        replayed_ns=sum(replayed) / len(replayed) if replayed else None, copy_ns=min(copies, default=None),
        exposed=any(one.exposed for one in launches), late=sum(one.late for one in launches),
    )  # fmt: skip
    if handoff == "sync":
        return replace(cell, order_ns=gauged_difference(order), skip_ns=gauged_difference(skip))
    order_forward = mean_jump([one.order_forward for one in launches if one.order_forward is not None])
    skip_forward = mean_jump([one.skip_forward for one in launches if one.skip_forward is not None])
    return replace(
        cell, order_ns=_sum(mirrored_difference(order), order_forward),
        skip_ns=_sum(mirrored_difference(skip), skip_forward), forward=skip_forward,
    )  # fmt: skip


def _sum(outside_ns: Number | None, forward: Jump | None) -> Number | None:
    return None if outside_ns is None or forward is None else outside_ns + forward.ns


def replayed_ns(first: Recording, last: Recording) -> Number | None:
    """What leaving the copy and its call out would spare."""
    return commit_step(first, last)


def _block(block: dict[str, Any]) -> Block:
    return Block(block["order"], tuple(block["periods_ns"]))


def judged(cells: Sequence[Cell]) -> list[Finding]:
    """Findings of point 7; copies of 0.125 MiB are below the resolution and must be null."""
    large = [cell for cell in cells if cell.mib >= 2 and cell.events]
    close = [_close(cell) for cell in large]
    off = [_said(cell) for cell, ok in zip(large, close, strict=True) if not ok]
    agree = [_said(cell) for cell, ok in zip(large, close, strict=True) if ok]
    planted = f"{len(large)} cells of 2 and 8 MiB: replayed within max(8 us, 10 %) of first - skip"
    small = [cell.exposed for cell in cells if cell.mib == SMALL_MIB]
    return [
        within(
            f"{planted}; not: {'; '.join(off) or 'none'}. Those that agree: {'; '.join(agree) or 'none'}",
            sum(close), max(len(large) - 1, 1), len(large),
        ),
        exact("cells of 0.125 MiB that give an exposure a copy", 0, sum(small) if small else None),
        *(_order(cell) for cell in _plainest(cells)),
        *_against_copy(cells),
    ]  # fmt: skip


def _close(cell: Cell) -> bool:
    if cell.replayed_ns is None or cell.skip_ns is None:
        return False
    return bool(abs(cell.replayed_ns - cell.skip_ns) <= max(LEAST_NS, SHARE * abs(cell.skip_ns)))


def _said(cell: Cell) -> str:
    told = ("null" if value is None else f"{value / 1e3:.1f}" for value in (cell.replayed_ns, cell.skip_ns))
    beside = [] if cell.forward is None else [f"{_with_bounds(cell.forward)} of it in the forward"]
    beside += [f"rounds in which the device did not bind: {cell.late}"] if cell.late else []
    return "{} {} against {}".format(cell.name, *told) + (f" ({'; '.join(beside)})" if beside else "")


def _with_bounds(jump: Jump) -> str:
    return f"{jump.ns / 1e3:.1f}" + ("" if jump.half_ns is None else f" +- {jump.half_ns / 1e3:.1f}")


def _plainest(cells: Sequence[Cell]) -> list[Cell]:
    """Of 2 and 8 MiB on the compute stream, two steps in flight: arms without events where there are some."""
    found = [cell for cell in cells if cell.handoff != "sync" and cell.road == "compute" and cell.mib >= 2]
    plain = {cell.width for cell in found if not cell.events}
    return [cell for cell in found if not cell.events or cell.width not in plain]


def _order(cell: Cell) -> Finding:
    return within(f"{cell.name}: last - first", _us(cell.order_ns), -5, 5, "us")


def _against_copy(cells: Sequence[Cell]) -> Iterator[Finding]:
    """With two steps in flight: what 8 MiB expose on the compute stream, and what two tables leave of them."""
    copies = {(cell.width, cell.road): cell.copy_ns for cell in cells if cell.events and cell.handoff != "sync"}
    for cell in cells:
        if cell.events or cell.width != max(WIDTHS):
            continue
        copy_ns = copies.get((cell.width, cell.road))
        if cell.road == "compute":
            share = cell.skip_ns / copy_ns if cell.skip_ns is not None and copy_ns else float("inf")
            said = f"|C| {_us(copy_ns):.1f} us"
            yield within(f"{cell.name}: (first - skip) / |C| ({said})", share, 0.9, 1.1)
        if cell.road == "double":
            yield within(f"{cell.name}: first - skip", _us(cell.skip_ns), -15, 15, "us")


def _us(value_ns: Number | None) -> float:
    return float("inf") if value_ns is None else value_ns / 1e3


def _cells(setting: Setting) -> Sequence[Finding]:
    """Point 7."""
    return judged(measured_cells(cell_specs(setting.device, quick=setting.quick)))


CHECKS = (
    Check(
        group="overlap", name="cells", point=7, run=_cells, needs=("cuda",), seeded=False,
        why="arms are compared with the replay of real queues, and host times here are another machine's",
        mutants={"copies_forgotten": replaced("experiments.verify.cells", "replayed_ns", lambda whole: lambda *a: 0.0)},
    ),
)  # fmt: skip
