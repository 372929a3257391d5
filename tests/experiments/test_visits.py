"""Launches side by side measure a few rounds at a time: who is let in when, and how many steps that takes."""

import threading
from dataclasses import replace
from pathlib import Path

from stepscope.experiments.interleaved import take_turns
from stepscope.experiments.spec import MeasureSpec
from stepscope.experiments.turnstile import Turnstile
from stepscope.experiments.visits import arm_steps, whole_visits

MEASURE = MeasureSpec(blocks=10, block_steps=5, settle_steps=2, resident=True)


class Arm:
    warmup_steps = 0

    def __init__(self, log: list[str]) -> None:
        self.log, self.steps = log, 0

    def activate(self) -> None: ...

    def run(self, limits, interrupted=None) -> None: ...

    def hand_over(self) -> None: ...

    def block(self, settle, steps, interrupted=None) -> list[int]:
        self.log.append(f"settle {settle}")
        self.steps += settle + steps + 1
        return list(range(steps + 1))


def visited(measure: MeasureSpec) -> tuple[list[str], list[Arm]]:
    log: list[str] = []
    arms = [Arm(log), Arm(log)]
    take_turns(arms, measure, pass_on=lambda: log.append("pass on"))
    return log, arms


def test_each_visit_begins_with_a_round_that_settles_for_longer() -> None:
    log, arms = visited(MEASURE)
    first, others = ["settle 5"] * 2, ["settle 2"] * 6
    assert log == [*first, *others, "pass on", *first, *others, "pass on", *first, "settle 2", "settle 2"]
    assert [arm.steps for arm in arms] == [arm_steps(MEASURE)] * 2 == [10 * 8 + 3 * 3] * 2


def test_who_is_alone_or_counts_every_step_goes_through() -> None:
    for measure in (replace(MEASURE, resident=False), replace(MEASURE, settle_steps=0)):
        log, arms = visited(measure)
        assert log == [f"settle {measure.settle_steps}"] * 20
        assert arms[0].steps == arm_steps(measure) == 10 * (measure.settle_steps + 6)


def test_passing_on_lets_another_one_measure_and_nobody_build(tmp_path: Path) -> None:
    # GIVEN one who measures, one who waits to measure and one who waits to build
    one, two, three = (Turnstile(tmp_path) for _ in range(3))
    order: list[str] = []

    def second() -> None:
        with two.measuring():
            order.append("second measures")

    def third() -> None:
        with three.building():
            order.append("third builds")

    threads = [threading.Thread(target=second), threading.Thread(target=third)]
    with one.measuring() as pass_on:
        order.append("first measures")
        for thread in threads:
            thread.start()
        while "second measures" not in order:  # however long it takes it to wait
            pass_on()
        order.append("first again")
    for thread in threads:
        thread.join(20)
    assert order == ["first measures", "second measures", "first again", "third builds"]


def test_arms_that_share_a_runner_have_steps_for_the_visits_of_all() -> None:
    assert whole_visits(MEASURE) == 12
    assert whole_visits(replace(MEASURE, resident=False)) == 10
    shared = replace(MEASURE, blocks=3 * whole_visits(MEASURE))
    assert arm_steps(shared) >= 3 * arm_steps(MEASURE)
