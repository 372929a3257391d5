"""Arms on forwards that grow in waves and stairs, and forwards that an arm itself lengthens."""

import math
import random

import numpy as np
import pytest
from stepscope.analysis.blocks import Block
from stepscope.analysis.forwards import Jump, forward_starts, forwards_of, jump_of, net_blocks, settled, steps_of
from stepscope.analysis.mirrored import mirrored_difference, round_differences

ARMS = ("last", "first", "skip")
STEPS, SETTLE, LEFT_OUT = 12, 4, 4
OUTSIDE_NS = {"first": 302_000, "last": 302_000, "skip": 250_000}
"""Time outside the forward: what the copy of 2 MiB exposes is 52 us."""
IN_FORWARD_NS = {"first": 5_000}
"""What it costs the forward beside it."""


def smooth(step):
    """Waves of a tile of keys, as measured, and stairs where rows cross it together."""
    return round(400 * step + 13_000 * math.sin(2 * math.pi * step / 128) + 15_000 * (step // 128))


class Runs:
    """Blocks, their steps and forwards of each arm on one runner, whose level is off by a share of a forward."""

    def __init__(self, seed, level=1.0, rounds=36, in_forward=IN_FORWARD_NS, arms=ARMS, steps=STEPS):
        rng = random.Random(seed)
        self.blocks, self.steps, self.forwards = ({arm: made() for arm in ARMS} for made in (list, list, dict))
        step = 60
        for number in range(rounds):
            for place, arm in enumerate(arms if number % 2 == 0 else arms[::-1]):
                begin = step + SETTLE
                for at in range(step, begin + steps + 1):
                    took = 5_000_000 * level + smooth(at) + in_forward.get(arm, 0) + rng.gauss(0, 4_000)
                    unsettled = 250_000 * math.exp(60 - at) - 80_000 * math.exp((60 - at) / 20)
                    self.forwards[arm][at] = round(took + unsettled)
                step = begin + steps + 1
                own = np.arange(begin, begin + steps)
                lean = [(-1) ** at * 20_000 for at in own]  # what periods make up for in the next one
                periods = [self.forwards[arm][at] + OUTSIDE_NS[arm] + ns for at, ns in zip(own, lean, strict=True)]
                self.blocks[arm].append(Block(number * len(arms) + place, tuple(periods)))
                self.steps[arm].append(own)

    def difference(self, left, right, forwards=None):
        """By pace, net of forwards where given."""
        arms = [
            self.blocks[arm] if forwards is None else net_blocks(self.blocks[arm], self.steps[arm], forwards[arm])
            for arm in (left, right)
        ]
        return mirrored_difference(round_differences(*arms, left_out=LEFT_OUT))


def in_forwards(runs, left="first", right="skip", left_out=LEFT_OUT):
    own = settled(runs.forwards, runs.steps, left_out)
    return jump_of(own[left], own[right])


@pytest.mark.parametrize("seed", range(4))
def test_what_an_arm_costs_is_found_though_forwards_differ_by_more(seed):
    # GIVEN waves and stairs, which mirrored rounds do not cancel
    long = Runs(seed, rounds=16, steps=24, arms=("first", "last", "skip"))
    assert abs(long.difference("first", "skip") - 57_000) > 4_000
    runs = Runs(seed)
    # WHEN the time outside the forwards and the forwards at the borders are asked for
    outside, inside = runs.difference("first", "skip", runs.forwards), in_forwards(runs)
    # THEN each is right, and their sum is what the arm costs
    assert outside == pytest.approx(52_000, abs=1_000)
    assert inside.ns == pytest.approx(5_000, abs=2_500)
    assert 1_000 < inside.half_ns < 3_500
    assert in_forwards(runs, "last", "first").ns == pytest.approx(-5_000, abs=2_500)
    assert runs.difference("last", "first", runs.forwards) == pytest.approx(0, abs=1_000)
    # AND arms that do nothing to their forwards are not said to
    assert in_forwards(Runs(seed, in_forward={})).ns == pytest.approx(0, abs=2_500)


def test_a_launchs_first_rounds_are_left_out():
    # GIVEN forwards that fall and climb in them as later ones do not
    runs = Runs(0)
    own = settled(runs.forwards, runs.steps, LEFT_OUT)
    # THEN all arms begin with the first counted step of the round behind them
    begin = int(runs.steps["last"][LEFT_OUT][0])
    assert own == {arm: {at: ns for at, ns in took.items() if at >= begin} for arm, took in runs.forwards.items()}
    # AND nothing is left of a launch that was interrupted before, or without device times
    assert settled(runs.forwards, {"skip": runs.steps["skip"][:LEFT_OUT]}, LEFT_OUT) == {"skip": {}}
    assert settled({}, runs.steps, LEFT_OUT) == {arm: {} for arm in ARMS}


def test_a_border_at_which_a_step_was_held_up_neither_moves_the_figure_nor_widens_its_interval():
    runs = Runs(1)
    plain = in_forwards(runs)
    own = runs.steps["first"]
    for turn in (6, 11, 20):
        for step in own[turn][4:]:
            runs.forwards["first"][int(step)] += 300_000
    held_up = in_forwards(runs)
    assert held_up.ns == pytest.approx(plain.ns, abs=1_000)
    assert held_up.half_ns < 1.5 * plain.half_ns


@pytest.mark.parametrize("seed", range(3))
def test_forwards_of_the_same_steps_on_another_runner_serve_as_well(seed):
    # GIVEN arms without device times, and a runner whose forwards are 0.3 % longer
    runs, twin = Runs(seed), Runs(seed + 10, level=1.003)
    assert runs.difference("first", "skip", twin.forwards) == pytest.approx(52_000, abs=3_000)


def test_a_forward_that_is_not_known_is_its_blocks_usual_one_and_a_block_without_any_has_no_figure():
    blocks = [Block(5, (100, 200, 300)), Block(2, (400, 500))]
    steps = [np.array([3, 4]), np.array([8, 9, 10])]
    net = net_blocks(blocks, steps, {8: 10, 10: 30})
    assert net == [Block(2, ()), Block(5, (90, 180, 270))]
    assert round_differences(net, net, left_out=0) == [(True, 0.0)]


def test_borders_of_one_direction_only_say_nothing():
    one, two = dict.fromkeys(range(20), 7_000), dict.fromkeys(range(20, 40), 7_000)
    assert jump_of(one, two) is None
    assert jump_of({}, {}) is None
    # AND steps that both have, as those of a warm-up, are no border
    again = dict.fromkeys(range(40, 60), 7_000)
    assert jump_of(one | again, two) == (pytest.approx(0), None)
    # AND of two directions with two borders each the scatter is known
    more = dict.fromkeys(range(60, 80), 7_010)
    last = dict.fromkeys(range(80, 100), 7_010)
    assert jump_of(one | again | last, two | more).half_ns > 0
    assert Jump(5.0, 3.0).less(Jump(2.0, 4.0)) == (3.0, 5.0)
    assert Jump(5.0, None).less(Jump(2.0, 4.0)) == (3.0, None)
    assert jump_of(one | two | again, one | two) is None


def test_steps_and_their_forwards_are_read_from_a_recording(lab):
    # GIVEN six steps, the third not counted, of which the last has no device times
    made = lab()
    for number in range(6):
        with made.step(number):
            made.host(10)
    made.rows["steps"][2]["warmup"] = True
    for number in range(6):
        begin = 1_000 * number
        end = begin + 500 + number if number < 5 else None
        made.rows["spans"].append({"step": number, "lane": "gpu:compute", "name": "graph[64]", "kind": "graph",
                                   "start_ns": begin, "end_ns": end})  # fmt: skip
    recording = made.recording()
    assert forwards_of(recording) == {number: 500 + number for number in range(5)}
    assert forward_starts(recording) == {number: 1_000 * number for number in range(5)}
    blocks = [Block(4, (1, 2, 3)), Block(0, (1, 2))]
    assert [numbers.tolist() for numbers in steps_of(recording, blocks)] == [[0, 1], [3, 4, 5]]
