"""The host's speed beside each turn: a slow core is given rest, and a turn keeps what the gauge said."""

from stepscope.experiments.host_speed import RESTS, HostSpeed
from stepscope.experiments.interleaved import take_turns
from stepscope.experiments.spec import MeasureSpec


def test_a_slow_core_rests_until_it_is_fast_again_but_not_for_ever() -> None:
    gauges, slept = iter([100, 180, 180, 104, *[180] * 20]), []
    speed = HostSpeed(lambda: next(gauges), slept.append)
    assert speed.rested_ns() == 100
    assert speed.rested_ns() == 104
    assert len(slept) == 2
    assert speed.rested_ns() == 180
    assert len(slept) == 2 + RESTS


class Arm:
    warmup_steps = 0

    def activate(self) -> None: ...

    def run(self, limits, interrupted=None) -> None: ...

    def hand_over(self) -> None: ...

    def block(self, settle, steps, interrupted=None) -> list[int]:
        return list(range(0, 10 * (steps + 1), 10))


def test_a_turn_keeps_the_slower_of_the_gauges_around_it() -> None:
    # GIVEN a neighbour who comes during the second turn and leaves before the third
    gauges = iter([100, 101, 102, 180, 103, 104, 105, 106])
    found = take_turns([Arm(), Arm()], MeasureSpec(blocks=2, block_steps=3), speed=HostSpeed(lambda: next(gauges)))
    assert [[block["gauge_ns"] for block in blocks] for blocks in found] == [[101, 106], [180, 104]]
    assert found[0][0]["periods_ns"] == [10, 10, 10]
    assert "gauge_ns" not in take_turns([Arm()], MeasureSpec(blocks=1, block_steps=3))[0][0]
