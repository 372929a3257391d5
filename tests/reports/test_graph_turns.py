"""What replay is worth in the period: said of graph modes that took turns in launches, never of separate runs."""

from __future__ import annotations

from stepscope.analysis.blocks import Block
from stepscope.reports import SweepPoint, SweepView, render_sweep
from stepscope.reports.views.turns import in_turns

GRAPHS, ROWS = "runner.graph_mode", "workload.settings.num_reqs"
METRICS = {"period_p50_ns": 1, "padding_token_share": 0.25}


def point(mode: str, repeat: int = 0, period_ns: int = 0, rows: int = 8, turns: str = GRAPHS) -> SweepPoint:
    """A point of one block of four equal steps; without a period it is a run of its own."""
    blocks = (Block(0 if mode == "none" else 1, (period_ns,) * 4),) if period_ns else ()
    return SweepPoint(
        f"{mode}{repeat}{rows}", {GRAPHS: mode, ROWS: rows}, metrics=METRICS, repeat=repeat, blocks=blocks, turns=turns,
    )


def said(*points: SweepPoint) -> str:
    return " ".join(render_sweep(SweepView("s", points), "text").split())


def test_separate_runs_have_no_figure() -> None:
    sweep = SweepView("s", (point("none"), point("full"), point("none", rows=9), point("full", rows=9)))
    assert in_turns(sweep, GRAPHS, "none", "full").apart == 2
    text = said(*sweep.points)
    assert "What replay is worth in the period, separate runs do not tell" in text
    assert "--param interleave=graph_mode --param repeats=5; each launch has a process of its own" in text


def test_turns_in_several_launches_have_an_interval() -> None:
    # GIVEN replay shorter by 30 and 32 us in two launches of one setting: 31 on the mean, 95 % 18.3 to 43.7
    points = [point("none", 0, 100_000), point("full", 0, 70_000), point("none", 1, 102_000), point("full", 1, 70_000)]
    ((setting, found),) = in_turns(SweepView("s", tuple(points)), GRAPHS, "none", "full").took_turns
    assert setting == ""
    assert (found.mean, found.launches) == (-31_000.0, 2)
    assert found.high is not None
    assert found.high < 0
    text = said(*points)
    assert "Graph modes took turns in 1 setting: replay shortens the period in 1 (31.0 µs)" in text


def test_turns_in_one_launch_have_none() -> None:
    text = said(point("none", 0, 100_000), point("full", 0, 70_000))
    assert "in one launch, a replayed step's period less an eager one's is -30.0 µs: no interval" in text


def test_turns_of_another_switch_say_nothing_of_this_one() -> None:
    # GIVEN graph modes in processes of their own, in each of which two orders took turns
    apart = {"turns": "runner.commit_order"}
    points = (point("none", 0, 100_000, **apart), point("full", 0, 70_000, **apart))
    found = in_turns(SweepView("s", points), GRAPHS, "none", "full")
    assert (found.took_turns, found.apart) == ((), 1)


def test_what_a_switch_is_worth_stands_first_where_its_values_took_turns() -> None:
    points = [point("none", 0, 100_000), point("full", 0, 70_000), point("none", 1, 102_000), point("full", 1, 70_000)]
    text = said(*points)
    assert text.index("What the switch is worth, measured in turns") < text.index("Four questions")
    assert "graph mode full less none: shorter, -31.0 µs a step (95 %: -43.7 µs to -18.3 µs, 2 launches)." in text
    assert "graph mode full less none: -30.0 µs a step in one launch;" in said(*points[:2])
    assert "measured in turns" not in said(point("none"), point("full"))
