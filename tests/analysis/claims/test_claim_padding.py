"""Padding size by size: warm replays only, runners' constant difference taken out, correlation and free share."""

import pytest
from stepscope.analysis.claims.padding_figures import FreeShare, Waste, WasteCorrelation, wastes
from stepscope.analysis.claims.points import ClaimData, ClaimPoint, Turn

LADDER = 4
OFFSET = 300


def arm(name: str, time_of, captured, sizes=range(12, 0, -1), launch: int = 0) -> ClaimPoint:
    """Turns of two sizes, two steps each; the first one of each size pays 70,000 more."""
    turns = []
    sizes = list(sizes)
    for order in range(len(sizes) // 2):
        real = [size for size in sizes[2 * order : 2 * order + 2] for _ in range(2)]
        times = [time_of(size) + (70_000 if at % 2 == 0 else 0) for at, size in enumerate(real)]
        series = {"num_tokens": real, "padded_tokens": [captured(size) for size in real], "span_ns": times}
        turns.append(Turn(order, {key: tuple(values) for key, values in series.items()}))
    return ClaimPoint("E14", {}, name, launch, tuple(turns))


def up(size: int) -> int:
    return -(-size // LADDER) * LADDER


def test_time_waste_is_that_of_warm_replays_and_zero_is_where_nothing_is_padded() -> None:
    # GIVEN a cost of 1,000 a token and a runner that is 300 slower for where its memory lies
    exact = arm("exact", lambda size: 1000 * size, lambda size: size)
    padded = arm("default", lambda size: 1000 * up(size) + OFFSET, up)
    found = wastes(exact, padded, "span_ns")
    assert found == [Waste(up(size) - size, 1000.0 * (up(size) - size)) for size in range(12, 0, -1) if size % LADDER]
    assert WasteCorrelation({}, "exact", "default", "span_ns").by_launch(ClaimData([exact, padded])) == {
        0: pytest.approx(1.0)
    }


def test_a_stair_and_a_fall_do_not_go_with_tokens() -> None:
    # GIVEN padding of three tokens that is free, and of one that costs
    exact = arm("exact", lambda size: 1000 * up(size) - (500 if size % LADDER == 3 else 0), lambda size: size)
    padded = arm("default", lambda size: 1000 * up(size), up)
    data = ClaimData([exact, padded])
    assert WasteCorrelation({}, "exact", "default", "span_ns").by_launch(data)[0] < 0
    assert FreeShare({}, "exact", "default", "span_ns").by_launch(data) == {0: pytest.approx(2 / 3)}


def test_without_a_size_of_the_ladder_there_is_no_zero_and_no_figure() -> None:
    exact = arm("exact", lambda size: 1000, lambda size: size, sizes=[7, 6, 3, 2])
    padded = arm("default", lambda size: 1000, up, sizes=[7, 6, 3, 2])
    assert wastes(exact, padded, "span_ns") == []
    assert FreeShare({}, "exact", "default", "span_ns").by_launch(ClaimData([exact, padded])) == {}
    assert WasteCorrelation({}, "exact", "default", "span_ns").by_launch(ClaimData([exact, padded])) == {}


def test_steps_that_came_once_do_not_count() -> None:
    turn = Turn(0, {"num_tokens": (5, 4), "padded_tokens": (8, 4), "span_ns": (10, 10)})
    one = ClaimPoint("E14", {}, "exact", 0, (turn,))
    assert wastes(one, one, "span_ns") == []
