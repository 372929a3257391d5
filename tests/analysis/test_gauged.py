"""Arms on a host whose speed flips while they take turns."""

import random

from stepscope.analysis.blocks import Block
from stepscope.analysis.gauged import GaugedBlock, gauged_blocks, gauged_difference, pairs_of
from stepscope.analysis.stats import midmean

WORTH_NS, OWN_NS, GAUGE_NS = 80_000, 900_000, 400_000


def arms(seed, rounds=100, steps=3):
    """Steps of 0.9 ms of host work, of which 0.4 the gauge's, and 1.6 ms of waits; each step has a speed of its own."""
    rng = random.Random(seed)
    found = {"first": [], "skip": []}
    for number in range(rounds):
        for arm in ("first", "skip"):
            speeds = [rng.gauss(1.0, 0.1) for _ in range(steps)]
            own = OWN_NS + (WORTH_NS if arm == "first" else 0)
            periods = tuple(round(1_600_000 + speed * own + rng.gauss(0, 10_000)) for speed in speeds)
            gauges = tuple(round(speed * GAUGE_NS + rng.gauss(0, 3_000)) for speed in speeds)
            found[arm].append(GaugedBlock(Block(number, periods), gauges))
    return found


def test_what_the_speed_did_is_told_from_what_the_arm_did():
    plain, gauged = [], []
    for seed in range(20):
        found = arms(seed)
        pairs = pairs_of(found["first"], found["skip"], 10)
        assert len(pairs) == 90 * 3
        plain.append(midmean([period for period, _ in pairs]))
        gauged.append(gauged_difference(pairs))
    # THEN the figure is what the arm is worth at the usual speed, and scatters by a fraction of what it did
    assert all(abs(value - WORTH_NS) < 5_000 for value in gauged)
    assert max(gauged) - min(gauged) < 0.4 * (max(plain) - min(plain))


def test_gauges_that_say_nothing_change_nothing():
    assert gauged_difference([(5, 0), (7, 0), (6, 0)]) == 6
    assert gauged_difference([]) is None


def test_each_block_has_the_gauges_of_its_own_steps(lab):
    made = lab()
    for number in range(5):
        with made.step(number):
            with made.span("schedule", "range"):
                made.host(10 + number)
            with made.span("copy_inputs", "range"):
                made.host(500)
            with made.span("sample", "range"):
                made.host(100)
            made.wait(made.launch("forward", 400, kind="graph"))
    made.rows["steps"][2]["warmup"] = True  # between two blocks
    blocks = [Block(3, (1_000, 1_000)), Block(0, (900, 900))]
    found = gauged_blocks(made.recording(), blocks)
    assert [(one.block.order, one.gauges_ns) for one in found] == [(0, (110, 111)), (3, (113, 114))]
