"""Runs of one spec are told from runs of an earlier one."""

from stepscope.analysis.claims.points import ClaimPoint, Turn
from stepscope.analysis.claims.same_spec import of_last_spec, same_shape, shape_of

TWO = (Turn(0, {"period_ns": (1, 2)}), Turn(3, {"period_ns": (1, 2), "wait_ns": (1, 2, 3)}))


def run(width: int = 8, turns: tuple[Turn, ...] = TWO, **more: object) -> list[ClaimPoint]:
    cell = {"runner.table_width": width, "runner.capture_sizes": [64], **more}
    return [ClaimPoint("E1", cell, arm, launch, turns) for arm in ("first", "last") for launch in range(2)]


def test_a_run_is_told_by_cells_arms_turns_and_steps() -> None:
    assert set(shape_of(run()).values()) == {(2, 3)}
    assert same_shape(shape_of(run()), shape_of(run()))
    # another cell, one cell more, an arm less, fewer turns, fewer steps
    others = [run(4), run() + run(4), run()[:2], run(turns=TWO[1:]), run(turns=(TWO[0], TWO[0])), run(x=1)]
    assert [same_shape(shape_of(run()), shape_of(other)) for other in others] == [False] * 6


def test_launches_that_were_not_measured_say_nothing_of_turns() -> None:
    # one launch of two was cut: the other one tells; none was measured: cells and arms tell
    cut = [ClaimPoint("E1", point.cell, point.arm, 1, reason="not measured yet") for point in run()[1::2]]
    assert same_shape(shape_of(run()[::2] + cut), shape_of(run()))
    assert same_shape(shape_of(run(turns=())), shape_of(run()))
    assert not same_shape(shape_of(run(4, turns=())), shape_of(run()))


def test_the_last_run_that_has_the_claim_says_which_spec_counts() -> None:
    assert of_last_spec([run(4), run(), run()]) == ([1, 2], [0])
    assert of_last_spec([run(), run(), []]) == ([0, 1], [])
    assert of_last_spec([run(), [], run(4)]) == ([2], [0])
    assert of_last_spec([[], []]) == ([], [])
