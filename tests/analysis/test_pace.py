"""The pace of pipelined steps: whole rhythms are summed, so that alternating periods give what a step takes."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from stepscope.analysis.pace import (
    WINDOW,
    pace_ns,
    pace_of_blocks_ns,
    recorded_pace_ns,
    step_ns,
    steps_in_flight,
    window_of,
)
from stepscope.analysis.stats import median
from stepscope.analysis.tables import Process

DEVICE_NS = 4_000_000
RHYTHMS = {
    "two": [5_000_000, 3_000_000],
    "three": [7_563_000, 2_001_000, 2_436_000],  # tokens a graph late every third step: two of the three are short
}


def of_rhythm(name: str, steps: int = 51, shift: int = 0) -> list[int]:
    beats = RHYTHMS[name]
    return [beats[(number + shift) % len(beats)] for number in range(steps)]


@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("name", RHYTHMS)
def test_alternating_periods_have_the_pace_of_their_whole_rhythm(name: str, shift: int) -> None:
    # GIVEN periods that are never 4 ms, and 4 ms a step over each whole rhythm
    periods = of_rhythm(name, shift=shift)

    # WHEN the block is told by windows of whole rhythms, THEN it is the device's pace, wherever the block begins
    assert pace_ns(periods) == DEVICE_NS

    # AND single periods say something else, faster than the device can be where two of three are short
    assert median(periods) != DEVICE_NS
    if name == "three":
        assert median(periods) < 0.62 * DEVICE_NS
        assert pace_ns(periods, 2) > 1.19 * DEVICE_NS  # as do sums over as many steps as are in flight


def test_up_to_three_stalls_move_no_pace() -> None:
    periods = of_rhythm("three")
    for at in (4, 24, 41):  # each in at most six windows of the 46
        periods[at] += 90_000_000

    assert pace_ns(periods) == DEVICE_NS


def test_host_work_that_comes_and_goes_cancels() -> None:
    # GIVEN a step that starts when the device is done and some host work later: period[n] = device + h[n+1] - h[n]
    rng = np.random.default_rng(7)
    blocks = [DEVICE_NS + np.diff(rng.integers(200_000, 1_400_000, 51)) for _ in range(200)]

    # THEN the paces of equal blocks differ a third as much as their medians, and neither is biased
    paces, medians = (np.array([float(of(block) or 0) for block in blocks]) for of in (pace_ns, median))
    assert paces.std() < 0.35 * medians.std()
    assert abs(paces.mean() / DEVICE_NS - 1) < 0.001


@pytest.mark.parametrize(("in_flight", "window"), [(1, 1), (2, 6), (3, 12)])
def test_a_window_holds_whole_rhythms(in_flight: int, window: int) -> None:
    assert window_of(in_flight) == window


def test_a_step_that_waits_for_its_tokens_keeps_its_median() -> None:
    periods = [10, 11, 900, 12, 13]

    assert pace_ns(periods, window_of(1)) == 12
    assert pace_ns([10, 11, 12, 14], 1) == 11.5


def test_short_blocks_and_nothing() -> None:
    assert window_of(2) == WINDOW
    assert pace_ns([]) is None
    assert pace_of_blocks_ns([]) is None
    assert pace_ns([1, 2, 6]) == 3
    assert pace_ns([1, 2], 6) == 1.5


def test_no_window_reaches_over_the_end_of_a_block() -> None:
    # GIVEN two blocks with a different pace each, and one too short for a window
    blocks = [[4] * 12, [8] * 6, [1000] * 5]

    # THEN seven windows say 4, one says 8: none mixes them, and the short block is silent
    assert pace_of_blocks_ns(blocks) == 4
    assert pace_of_blocks_ns([[1] * 6, [3] * 6]) == 2  # halfway between two windows
    assert pace_of_blocks_ns([[1, 3], [8]]) == 4  # all are short: their mean period


@pytest.mark.parametrize(("latency", "found"), [(90, 1), (101, 2), (190, 2), (250, 3), (None, 1)])
def test_steps_in_flight_are_those_that_begin_before_the_tokens_are_back(latency: int | None, found: int) -> None:
    # GIVEN a step every 100 ns whose tokens come `latency` later; the first and the last step are none that count
    starts = [100 * step for step in range(12)]
    steps = pd.DataFrame({
        "step": pd.array(range(12), dtype="Int64"), "start_ns": pd.array(starts, dtype="Int64"),
        "latency_ns": pd.array([latency] * 12, dtype="Int64"),
        "warmup": pd.array([step in (0, 11) for step in range(12)], dtype="boolean"),
        "complete": pd.array([True] * 12, dtype="boolean"),
    })  # fmt: skip

    assert steps_in_flight(Process({}, {"steps": steps})) == found


def recorded(latency: int, skipped: tuple[int, ...] = ()) -> Process:
    """36 steps in a rhythm of three, the first of them warm-up, `skipped` ones not recorded."""
    periods = of_rhythm("three", 36)
    starts = np.concatenate(([0], np.cumsum(periods)))[:-1]
    rows = {
        "step": range(36), "start_ns": starts, "period_ns": periods, "latency_ns": latency,
        "warmup": [step == 0 for step in range(36)], "complete": True,
    }  # fmt: skip
    frame = pd.DataFrame(rows)
    return Process({}, {"steps": frame[~frame["step"].isin(skipped)]})


@pytest.mark.parametrize("latency", [7_000_000, 1_000_000])  # two steps in flight, or one: the same windows
def test_a_recording_has_a_pace(latency: int) -> None:
    assert recorded_pace_ns(recorded(latency)) == DEVICE_NS
    # AND where a step is missing no window reaches over it: 2 to 17 and 19 to 35 are whole rhythms, too
    assert recorded_pace_ns(recorded(latency, skipped=(18,))) == DEVICE_NS
    assert recorded_pace_ns(Process({}, {})) is None


def test_what_a_step_takes_is_its_pace_where_steps_are_pipelined() -> None:
    assert step_ns({"period_p50_ns": 3, "pace_ns": 4, "steps_in_flight": 2}) == 4
    assert step_ns({"period_p50_ns": 3, "pace_ns": 4, "steps_in_flight": 1}) == 3
    assert step_ns({"period_p50_ns": 3, "pace_ns": 4}) == 4  # a gate's result
    assert step_ns({"period_p50_ns": 3}) == 3


def pipeline(late: Callable[[int], bool], work_ns: Sequence[int]) -> np.ndarray:
    """Starts of steps of 4 ms with two in flight: step n is submitted, then the tokens of n - 1 are waited for.

    Where `late` says so they come behind the graph that is enqueued already, else when their own step ends.
    """
    now_ns, ends, starts = 0, [0], []
    for step, work in enumerate(work_ns):
        starts.append(now_ns)
        now_ns += work
        before = ends[-1]
        ends.append(max(before, now_ns) + DEVICE_NS)
        if step:
            behind = late(step - 1) and now_ns < before
            now_ns = max(now_ns, ends[-1] if behind else before)
    return np.array(starts)


@pytest.mark.parametrize(("name", "late"), [
    ("never", lambda step: False), ("always", lambda step: True), ("every third", lambda step: step % 3 == 0),
])  # fmt: skip
def test_the_pace_is_that_of_the_pipeline_however_late_its_tokens_come(name: str, late: Callable[[int], bool]) -> None:
    # GIVEN a host that takes 1.2 ms for a step, more or less
    work_ns = 1_200_000 + np.random.default_rng(3).integers(-150_000, 150_000, 200)
    starts = pipeline(late, work_ns.tolist())
    periods = np.diff(starts)

    # THEN the pace is the time of all steps by their number; where tokens are late, single periods say another
    truth = (starts[-1] - starts[20]) / (len(starts) - 21)
    assert float(pace_ns(periods[20:]) or 0) == pytest.approx(truth, rel=0.01)
    off = abs(float(median(periods[20:]) or 0) / truth - 1)
    assert (off > 0.05) == (name != "never")
    assert truth >= DEVICE_NS - 2_000
