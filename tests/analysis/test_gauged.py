"""Arms on a host whose speed flips while they take turns."""

import random
from pathlib import Path

import numpy as np
from stepscope.analysis.blocks import Block
from stepscope.analysis.gauged import (
    GAUGES,
    RANGES,
    GaugedBlock,
    Pairs,
    gauged_blocks,
    gauged_difference,
    pairs_of,
    parts_difference,
)
from stepscope.analysis.stats import midmean
from stepscope.instrumentation.recording.reader import Recording

WORTH_NS, HEAD_NS, WAIT_NS, TAIL_NS, RANGE_NS = 80_000, 600_000, 1_300_000, 300_000, 60_000
DECODE = Path(__file__).parents[2] / "examples/recordings/h200/decode/recording"
"""200 synchronous steps of 64 rows on an H200."""


def arms(seed, rounds=100, steps=4, late=0.15, held_up=0.0):
    """Steps whose head and tail have each a speed of its own, which their gauges tell, and whose tokens come late in
    one of seven. In some a gauge of the head is held up for 5 ms, and nothing else.
    """
    rng = random.Random(seed)
    found = {"first": [], "skip": []}
    for number in range(rounds):
        for arm in found:
            parts, gauges = [], []
            for _ in range(steps):
                head, tail = rng.gauss(1.0, 0.15), rng.gauss(1.0, 0.15)
                wait = WAIT_NS + rng.gauss(0, 4_000) + (rng.uniform(300_000, 3_000_000) if rng.random() < late else 0)
                own = HEAD_NS + (WORTH_NS if arm == "first" else 0)
                parts.append((head * own + rng.gauss(0, 8_000), wait, tail * TAIL_NS + rng.gauss(0, 8_000)))
                speeds = [head] * len(GAUGES["head"]) + [tail] * len(GAUGES["tail"])
                took = [speed * RANGE_NS + rng.gauss(0, 2_000) for speed in speeds]
                took[rng.randrange(len(GAUGES["head"]))] += 5_000_000 if rng.random() < held_up else 0
                gauges.append(took)
            found[arm].append(block(number, parts, gauges))
    return found


def block(number, parts, gauges):
    parts, gauges = np.array(parts).astype(np.int64), np.array(gauges).astype(np.int64)
    return GaugedBlock(Block(number, tuple(parts.sum(axis=1).tolist())), parts, gauges, np.ones(len(parts), dtype=bool))


def figures(trials=20, **kinds):
    """Of each trial the figure, and the midmean of the periods' differences."""
    gauged, plain = [], []
    for seed in range(trials):
        found = arms(seed, **kinds)
        pairs = pairs_of(found["first"], found["skip"], 10)
        gauged.append(gauged_difference([pairs]))
        plain.append(midmean(pairs.parts_ns.sum(axis=1)))
    return np.array(gauged), np.array(plain)


def test_what_the_speed_did_and_late_tokens_are_told_from_what_the_arm_did():
    gauged, plain = figures()
    # THEN the figure is what the arm is worth at the usual speed, and scatters by a fraction of what it did
    assert abs(gauged - WORTH_NS).max() < 6_000
    assert abs(gauged.mean() - WORTH_NS) < 1_000
    assert gauged.std() < 0.25 * plain.std()


def test_a_gauge_that_was_held_up_alone_is_not_believed():
    gauged, plain = figures(held_up=0.08)
    assert abs(gauged - WORTH_NS).max() < 6_000
    assert gauged.std() < 0.25 * plain.std()


def test_each_part_tells_what_it_is_of_the_figure():
    found = arms(0)
    pairs = pairs_of(found["first"], found["skip"], 10)
    parts = parts_difference([pairs])
    assert list(parts) == ["head", "wait", "tail"]
    assert sum(parts.values()) == gauged_difference([pairs])
    assert abs(parts["head"] - WORTH_NS) < 6_000
    assert abs(parts["wait"]) < 2_000
    assert abs(parts["tail"]) < 3_000


def test_launches_are_put_together():
    found = arms(0, rounds=60)
    halves = [pairs_of(found["first"][at : at + 30], found["skip"][at : at + 30], 0) for at in (0, 30)]
    assert gauged_difference(halves) == gauged_difference([pairs_of(found["first"], found["skip"], 0)])


def test_few_pairs_and_gauges_that_say_nothing_change_nothing():
    def of(values, gauge):
        parts = np.zeros((len(values), 3), dtype=np.int64)
        parts[:, 0] = values
        return Pairs(parts, np.array([[gauge(value)] * len(RANGES) for value in values], dtype=np.int64))

    assert gauged_difference([of([5, 7, 6], lambda value: 0)]) == 6
    assert gauged_difference([of(range(4000, 4100), lambda value: 0)]) == 4049.5
    assert gauged_difference([of(range(4000, 4010), lambda value: value)]) == 4004.5
    assert gauged_difference([]) is None
    assert gauged_difference([of([], int)]) is None


def test_rounds_are_paired_and_the_first_and_an_odd_one_left_out():
    made = {
        arm: [block(number, [(add + number, 20, 30)], [[number] * len(RANGES)]) for number in range(6)]
        for arm, add in (("first", 100), ("skip", 0))
    }
    pairs = pairs_of(made["first"], made["skip"], 1)
    assert pairs.parts_ns.tolist() == [[100, 0, 0]] * 4
    assert pairs.gauges_ns.tolist() == [[0] * len(RANGES)] * 4


def steps_of_one_launch(lab):
    made = lab()
    for number in range(5):
        with made.step(number):
            with made.span("update_states", "range"):
                made.host(10 + number)
            with made.span("copy_inputs", "range"):
                made.host(500)
            op = made.launch("graph.64", 400, kind="graph")
            with made.span("sample", "range"):
                made.host(50)
            made.launch("sample", 10)
            if number != 3:
                made.wait(op)
        with made.span("schedule", "range"):
            made.host(100 * number)
        made.rows["spans"][-1]["step"] = number  # it lies behind the step, and is written down for it
    made.rows["steps"][2]["warmup"] = True  # between two blocks
    return made


def test_each_block_has_the_parts_and_gauges_of_its_own_steps(lab):
    made = steps_of_one_launch(lab)
    rows = {row["step"]: row for row in made.rows["steps"]}
    blocks = [Block(3, (rows[3]["period_ns"], 9_000)), Block(0, (rows[0]["period_ns"], rows[1]["period_ns"]))]
    first, later = gauged_blocks(made.recording(), blocks)
    assert (first.block.order, later.block.order) == (0, 3)
    # THEN the head ends with the launch's call, the wait with the tokens, and the tail with the next step
    assert first.parts_ns[:, 0].tolist() == [10 + 500 + 4, 11 + 500 + 4]
    assert first.parts_ns[:, 1].tolist() == [3 + 400 + 7] * 2
    assert first.parts_ns[:, 2].tolist() == [0, 100]
    assert first.parts_ns.sum(axis=1).tolist() == list(first.block.periods_ns)
    told = [dict(zip(RANGES, gauges.tolist(), strict=True)) for gauges in (*first.gauges_ns, *later.gauges_ns)]
    assert [(one["update_states"], one["sample"], one["schedule"]) for one in told] == [
        (10, 50, 0), (11, 50, 100), (13, 50, 300), (14, 50, 400)
    ]  # fmt: skip
    # AND a step whose wait was not recorded is paired with none
    assert (first.known.tolist(), later.known.tolist()) == ([True, True], [False, True])
    assert len(pairs_of([first, later], [later, first], 0).parts_ns) == 2


def test_what_is_planted_into_turns_of_a_real_host_is_found_within_the_tolerance():
    # GIVEN three launches of 100 rounds, their steps drawn from a recording, 66 in a row at a time, and 60 us more in
    # the head of one arm's; four of the six steps of a turn count
    recording = Recording.load(DECODE)
    starts = recording.table("steps").sort_values("step").query("~warmup")["start_ns"].astype("int64").to_numpy()
    (real,) = gauged_blocks(recording, [Block(0, (*np.diff(starts).tolist(), 0))])
    rng, turn, place = np.random.default_rng(0), *np.divmod(np.arange(36), 6)
    first, skip = (np.isin(turn, its) & (place > 0) & (place < 5) for its in ((0, 5), (2, 3)))
    gauged, plain = [], []
    for _ in range(40):
        drawn = (rng.integers(0, 199, (3, 28, 1)) + np.arange(66)).reshape(3, -1)[:, :1800].reshape(150, 36) % 199
        mine, its = drawn[:, first].ravel(), drawn[:, skip].ravel()
        parts = real.parts_ns[mine] - real.parts_ns[its] + [60_000, 0, 0]
        gauged.append(gauged_difference([Pairs(parts, real.gauges_ns[mine] - real.gauges_ns[its])]))
        plain.append(midmean(parts.sum(axis=1)))
    # THEN it is found to 4 us, where periods alone tell it to 8, and by chance alone on either side
    assert np.std(gauged) < 4_000 < np.std(plain)
    assert abs(np.mean(gauged) - 60_000) < 2_000
    assert np.mean(np.abs(np.array(gauged) - 60_000) <= 8_000) >= 0.95
