"""Arms whose periods grow, or lean on one another, or whose host is slow for a while."""

import random
from itertools import pairwise

from stepscope.analysis.blocks import Block
from stepscope.analysis.mirrored import LATE_SHARE, LATE_WAIT_NS, kept_waiting, mirrored_difference, round_differences
from stepscope.analysis.pace import WINDOW

STEPS, SETTLE = 24, 4
ARMS = ("first", "last", "skip")
WORTH_NS = {"first": 160_000, "skip": 0}


def turns(rounds):
    """(place among all turns, arm) in rounds and mirrored rounds."""
    for number in range(rounds):
        for place, arm in enumerate(ARMS if number % 2 == 0 else ARMS[::-1]):
            yield number * len(ARMS) + place, arm


def arms_of(rounds, grown_ns):
    """Step n takes 2 ms, `grown_ns(n)` and its arm's."""
    found, step = {arm: [] for arm in ARMS}, 0
    for order, arm in turns(rounds):
        step += SETTLE
        periods = tuple(2_000_000 + grown_ns(at) + WORTH_NS.get(arm, 0) for at in range(step, step + STEPS))
        found[arm].append(Block(order, periods))
        step += STEPS
    return found


class Machine:
    """Two steps in flight. The host goes at x 1.0 or x 1.8 for 0.1 to 0.5 s; is held up for 2 to 5 ms in every 40th
    step; and of every other step the tokens come 0.3 ms late for it to see.
    """

    def __init__(self, seed, device_ns, host_ns=1_500_000):
        self.rng = random.Random(seed)
        self.device_ns, self.host_ns = device_ns, host_ns
        self.now = self.flip_ns = 0.0
        self.slow, self.step = False, 0

    def work(self, ns):
        if self.now >= self.flip_ns:
            self.slow, self.flip_ns = not self.slow, self.now + self.rng.uniform(1e8, 5e8)
        held_up = self.rng.uniform(2e6, 5e6) if self.rng.random() < 1 / 80 else 0
        self.now += ns * (1.8 if self.slow else 1.0) + abs(self.rng.gauss(0, 15_000)) + held_up

    def block(self, order, worth_ns):
        """A block, and how long the host waited in each of its steps. The queue is empty when it begins."""
        starts, waits, before, end = [], [], None, self.now
        for _ in range(SETTLE + STEPS + 1):
            starts.append(self.now)
            self.work(0.8 * self.host_ns)
            end = max(self.now, end) + self.device_ns + 400 * self.step + worth_ns
            seen = self.now if before is None else before
            waits.append(max(0, round(seen - self.now)))
            self.now = max(self.now, seen)
            self.work(0.2 * self.host_ns)
            self.step += 1
            before = end + 300_000 * (self.step % 2)
        self.now = max(self.now, before)
        periods = [round(later - earlier) for earlier, later in pairwise(starts[SETTLE:])]
        return Block(order, tuple(periods)), waits[SETTLE:-1]


def measured(seed, device_ns, rounds=16):
    """Blocks of each arm, and the waits in each of them."""
    machine, found = Machine(seed, device_ns), {arm: ([], []) for arm in ARMS}
    for order, arm in turns(rounds):
        block, waits = machine.block(order, WORTH_NS.get(arm, 0))
        found[arm][0].append(block)
        found[arm][1].append(waits)
    return found


def rms(errors):
    return (sum(error**2 for error in errors) / len(errors)) ** 0.5


def late_steps(waits):
    shares = [sum(wait < LATE_WAIT_NS for wait in block) / STEPS for block in waits]
    return frozenset(number for number, share in enumerate(shares) if share > LATE_SHARE)


def test_what_grows_evenly_is_cancelled_whatever_the_rounds():
    # GIVEN periods that grow by 0.4 us a step, and by 40 us more in the first 50 steps of the launch
    def grown(step):
        return 400 * step + (40_000 if step < 50 else 0)

    for rounds in (4, 6, 7, 16):
        found = arms_of(rounds, grown)
        assert mirrored_difference(round_differences(found["first"], found["skip"])) == 160_000
    # AND differences of single rounds lie 22 us to either side of it
    apart = 2 * (STEPS + SETTLE) * 400
    assert set(round_differences(found["first"], found["skip"])) == {(False, 160_000 - apart), (True, 160_000 + apart)}


def test_a_direction_without_a_round_says_nothing():
    found = arms_of(4, lambda step: 0)
    assert mirrored_difference(round_differences(found["first"][:3], found["skip"][:3])) is None
    assert mirrored_difference(round_differences(found["first"], found["skip"], left_out=0)) == 160_000
    assert mirrored_difference(round_differences(found["first"], found["skip"], unfit={3})) is None
    assert mirrored_difference([]) is None


def test_periods_that_lean_on_one_another_are_compared_to_three_us_where_the_device_binds():
    off, single = [], []
    for seed in range(12):
        found = measured(seed, device_ns=4_800_000)
        assert not any(late_steps(waits) for _, waits in found.values())
        (first, _), (skip, _) = found["first"], found["skip"]
        for errors, window in ((off, WINDOW), (single, 1)):
            errors.append(mirrored_difference(round_differences(first, skip, window=window)) - 160_000)
    # THEN paces are right, and the medians of single periods, of which every other is too long, are not
    assert rms(off) < 3_000
    assert rms(single) > 12_000


def test_where_the_host_outlasts_the_device_rounds_are_left_out_and_there_is_no_figure():
    # GIVEN 2.5 ms of the device's, which the host outlasts where it is slow
    found = measured(3, device_ns=2_500_000)
    late = frozenset().union(*(late_steps(waits) for _, waits in found.values()))
    assert len(late) >= 8
    (first, _), (skip, _) = found["first"], found["skip"]
    kept = round_differences(first, skip, unfit=late)
    assert len(kept) == 14 - len(late - {0, 1})
    # AND without the rule there is one, which is wrong
    off = [mirrored_difference(round_differences(*(measured(seed, 2_500_000)[arm][0] for arm in ("first", "skip"))))
           for seed in range(6)]  # fmt: skip
    assert rms([value - 160_000 for value in off]) > 12_000


def test_waits_belong_to_the_steps_of_their_blocks(lab):
    # GIVEN five steps, of which the last two have nothing to wait for
    made = lab()
    for number in range(5):
        with made.step(number):
            made.host(10)
        made.rows["steps"][number] |= {"host_wait_ns": 400_000 if number < 3 else 15_000}
    made.rows["steps"][2]["warmup"] = True  # between two blocks
    blocks = [Block(3, (1_000, 1_000)), Block(0, (900, 900))]
    assert kept_waiting(made.recording(), blocks) == [True, False]
