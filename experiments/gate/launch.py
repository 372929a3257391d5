"""One launch: both arms' processes start, build each point side by side, and take turns at it, block by block."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...analysis.gate.block_values import BlockRange, LaunchValues, block_values
from ...analysis.gate.conditions import Conditions
from ...analysis.gate.verdict import Reason
from ...analysis.pace import most_in_flight
from ...instrumentation.recording.reader import Recording
from .arms import Program
from .points import Blocks, Points
from .process import ArmFailed, ArmProcess
from .same_work import other_tokens, why_incomparable
from .watch import Watch

ARMS = ("base", "head")
Launch = Mapping[str, "PointLaunch"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PointLaunch:
    """What one launch gave of one point. `opened`: what each arm said of itself and of the point it built.

    values       arm -> figures of its blocks, in the order of pairs
    conditions   arm -> of each block
    head_first   of each pair
    failures     arm -> why there are no values;  refused: why the arms must not be compared at all
    """

    opened: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, LaunchValues] = field(default_factory=dict)
    conditions: Mapping[str, Sequence[Conditions]] = field(default_factory=dict)
    head_first: Sequence[bool] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[Reason, str] | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """What every launch shares. `points`: arm -> its points, all of the same names. `timeout_s`: of one answer.

    `values`: how a recording becomes figures; see `block_values`. `named`: paths that an arm's `set:` names.
    """

    programs: Mapping[str, Program]
    points: Mapping[str, Points]
    blocks: Blocks
    pairs: int
    scratch: Path
    watch: Watch
    timeout_s: float = 900.0
    values: Callable[..., LaunchValues] = block_values
    named: frozenset[str] = frozenset()


def measure_launch(bench: Bench, names: Sequence[str], number: int, say: Say) -> dict[str, PointLaunch]:
    """Name -> what launch `number` gave. The points go around, and so does the arm that leads.

    After a failure the processes are started anew: what an error leaves behind must not slow the next point.
    """
    turn = number % len(names)
    left = deque([*names[turn:], *names[:turn]])
    found: dict[str, PointLaunch] = {}
    while left:
        try:
            with resident(bench, number) as arms:
                found.update(_until_failure(bench, arms, left, number))
        except ArmFailed as error:  # one could not be started
            found.update((name, PointLaunch(failures={error.arm: str(error)})) for name in left)
            left.clear()
    for name, one in found.items():
        for arm, why in one.failures.items():
            say(f"launch {number}: {name}: {arm}: {why}")
    return found


def _until_failure(
    bench: Bench, arms: Mapping[str, ArmProcess], left: deque[str], number: int
) -> Iterator[tuple[str, PointLaunch]]:
    """Measure and take off the first of `left`, and the next, until one fails."""
    while left:
        name = left.popleft()
        one = measure_point(bench, arms, name, number)
        yield name, one
        if one.failures:
            return


@contextmanager
def resident(bench: Bench, number: int) -> Iterator[dict[str, ArmProcess]]:
    """Both processes, ready; killed at the end. ArmFailed where one does not come up, or runs other code than asked."""
    order = ARMS if number % 2 == 0 else ARMS[::-1]
    with ExitStack() as stack:
        arms = {}
        for arm in order:
            arms[arm] = ArmProcess(arm, bench.programs[arm], bench.scratch / arm / "log.txt")
            stack.callback(arms[arm].close)
        for arm in order:
            package = arms[arm].receive(bench.timeout_s)["package"]
            expected = bench.programs[arm].package
            if expected is not None and Path(package) != expected:
                raise ArmFailed(arm, "other code", f"{package} came up in place of {expected}")
        yield arms


def measure_point(bench: Bench, arms: Mapping[str, ArmProcess], name: str, number: int) -> PointLaunch:
    """What launch `number` gives of the point `name`. After a failure `arms` are of no use any more."""
    folders = {arm: bench.scratch / arm / "point" for arm in ARMS}
    try:
        opened = _open(bench, arms, name, folders)
        refused = why_incomparable(opened, bench.named)
        if refused is not None:
            return PointLaunch(opened, refused=refused)
        bench.watch.settled()
        head_first = [(number + pair) % 2 == 1 for pair in range(bench.pairs)]
        ranges, conditions = _take_turns(bench, arms, head_first)
        _close(bench, arms)
        values = _values(bench, folders, ranges, opened)
    except ArmFailed as error:
        return PointLaunch(failures={error.arm: str(error)})
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    refused = other_tokens(values)
    if refused is not None:
        return PointLaunch(opened, refused=refused)
    return PointLaunch(opened, values, conditions, head_first)


def _open(
    bench: Bench, arms: Mapping[str, ArmProcess], name: str, folders: Mapping[str, Path]
) -> dict[str, dict[str, Any]]:
    """Both build the point at the same time."""
    for arm, process in arms.items():
        process.send({"do": "open", "tree": bench.points[arm][name], "folder": str(folders[arm])})
    return {arm: process.receive(bench.timeout_s) for arm, process in arms.items()}


def _close(bench: Bench, arms: Mapping[str, ArmProcess]) -> None:
    """Both write their recordings."""
    for process in arms.values():
        process.send({"do": "close"})
    for process in arms.values():
        process.receive(bench.timeout_s)


def _take_turns(
    bench: Bench, arms: Mapping[str, ArmProcess], head_first: Sequence[bool]
) -> tuple[dict[str, list[BlockRange]], dict[str, list[Conditions]]]:
    """A B | B A | ...: where each arm's blocks lie in its recording, and what the machine did in them."""
    ranges: dict[str, list[BlockRange]] = {arm: [] for arm in ARMS}
    conditions: dict[str, list[Conditions]] = {arm: [] for arm in ARMS}
    blocks, watch = bench.blocks, bench.watch
    request = {"do": "block", "settle": blocks.settle, "steps": blocks.steps}
    for first in head_first:
        for arm in ARMS[::-1] if first else ARMS:
            process = arms[arm]
            watch.begin(process.pid)
            reply = process.ask(request, bench.timeout_s, watch.look)
            conditions[arm].append(watch.end(process.pid))
            if reply["ran"] != blocks.steps:
                raise ArmFailed(arm, "short", f"requests ended after {reply['ran']} of {blocks.steps} steps of a block")
            ranges[arm].append(BlockRange(int(reply["first"]), blocks.steps))
    return ranges, conditions


def _values(
    bench: Bench, folders: Mapping[str, Path], ranges: Mapping[str, Sequence[BlockRange]],
    opened: Mapping[str, Mapping[str, Any]],
) -> dict[str, LaunchValues]:  # fmt: skip
    """Both arms' figures, what a step takes by one definition in both."""
    recordings = {arm: Recording.load(folders[arm]) for arm in ARMS}
    in_flight = most_in_flight(recordings.values())
    real = {arm: opened[arm]["device"] == "cuda" and not opened[arm]["modelled"] for arm in ARMS}
    return {
        arm: bench.values(recordings[arm], ranges[arm], device_times=real[arm], in_flight=in_flight) for arm in ARMS
    }
