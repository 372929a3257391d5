"""Arms that took turns: differences within a launch, intervals over launches, and what the arms table makes of it."""

import pytest
from stepscope.analysis.arms import ArmPoint, pair_orders
from stepscope.analysis.blocks import Block, launch_difference, over_launches, step_differences
from stepscope.analysis.exposure import exposure
from stepscope.analysis.summary import Summary

US = 1_000


def blocks(*medians, first=0, step=3):
    """Blocks of three periods around each median, in the order of their turns."""
    return tuple(Block(first + step * at, (m - 5, m, m + 90)) for at, m in enumerate(medians))


def test_a_launch_is_the_median_over_pairs_of_steps_whatever_drifts():
    # GIVEN a drift of 100 a round that both arms share, one round that was disturbed, and a difference of 7
    left = blocks(107, 207, 9_000, 407, 507)
    right = blocks(100, 200, 300, 400, 500)
    assert step_differences(left, right) == [7] * 6 + [8_700] * 3 + [7] * 3  # the fifth round is left over
    assert launch_difference(left, right) == 7


def test_what_grows_from_block_to_block_leaves_the_median_over_rounds():
    # GIVEN a period that grows by 10 a block, turns A B | B A, and a difference of 7
    left = (Block(0, (107,)), Block(3, (137,)), Block(4, (147,)))
    right = (Block(1, (110,)), Block(2, (120,)), Block(5, (150,)))
    assert step_differences(left, right) == [-3, 17]
    assert launch_difference(left, right) == 7
    assert launch_difference(left[:1], right[:1]) == -3  # one round alone cannot tell


def test_steps_are_paired_by_their_place_whatever_grows_within_a_block():
    # GIVEN blocks whose steps grow by 100 each, and one step of each arm that was disturbed
    left, right = (Block(0, (7, 107, 9_000, 307, 407)),), (Block(1, (0, 100, 200, 700, 400)),)
    assert step_differences(left, right) == [7, 7, 8_800, -393, 7]
    assert launch_difference(left, right) == 7  # the medians of the blocks differ by 107


def test_blocks_are_paired_by_round_in_whatever_order_they_are_stored():
    assert launch_difference(blocks(107, 207)[::-1], blocks(100, 200)) == 7


def test_a_round_that_one_arm_lacks_says_nothing():
    assert step_differences(blocks(107, 207), blocks(100)) == [7] * 3
    assert step_differences((Block(0, ()),), (Block(0, (1,)),)) == []
    assert launch_difference((), blocks(100)) is None


def test_the_interval_is_students_over_launches():
    found = over_launches([1.0, 2.0, 3.0, 4.0, 5.0])
    # mean 3, s = 1.5811, t(4) = 2.7764, half = 2.7764 * 1.5811 / sqrt(5)
    assert (found.mean, found.launches) == (3.0, 5)
    assert (found.low, found.high) == (pytest.approx(3 - 1.96324, abs=1e-4), pytest.approx(3 + 1.96324, abs=1e-4))
    one = over_launches([4.0])
    assert (one.mean, one.low, one.high) == (4.0, None, None)
    assert over_launches([]) is None


def point(order, launch, *medians, copy=160, first=0):
    metrics = {"period_p50_ns": 1, "table_copy_p50_ns": copy, "exposed_step_ns": 5, "commit_step_ns": 40}
    return ArmPoint(f"{order}{launch}", {"runner.commit_order": order}, Summary(metrics, {}), launch,
                    blocks(*medians, first=first))


def test_arms_in_turns_are_compared_within_their_launches():
    # GIVEN two launches of which the second is 1000 slower throughout
    table = pair_orders([
        point("first", 0, 1_040, 1_140), point("last", 0, 1_150, 1_250), point("skip", 0, 1_000, 1_100),
        point("first", 1, 2_044, 2_144), point("last", 1, 2_156, 2_256), point("skip", 1, 2_000, 2_100),
    ])
    row = table.iloc[0]
    assert row["launches"] == 2
    assert (row["first_minus_skip_ns"], row["last_minus_skip_ns"], row["last_minus_first_ns"]) == (42, 153, 111)
    # t(1) = 12.706: 42 +- 12.706 * 2
    assert row["first_minus_skip_low_ns"] == pytest.approx(42 - 25.41, abs=0.01)
    assert row["copy_share"] == pytest.approx(153 / 160)
    assert row["copy_share_high"] > row["copy_share"] > row["copy_share_low"]
    assert (row["copy_ns"], row["unexplained_ns"], row["exposed_step_ns"], row["commit_step_ns"]) == (160, -7, 5, 40)


def test_the_copy_is_the_shorter_one_of_the_two_arms_that_make_it():
    # GIVEN events that read longer in arm first, where the copy finds the stream idle; and in one launch in arm last
    row = pair_orders([
        point("first", 0, 1_040, copy=172), point("last", 0, 1_153, copy=160), point("skip", 0, 1_000),
        point("first", 1, 1_040, copy=150), point("last", 1, 1_153, copy=170), point("skip", 1, 1_000),
    ]).iloc[0]
    assert row["copy_ns"] == 161  # of the arms' means, 161 and 165
    assert row["copy_share"] == pytest.approx((153 / 160 + 153 / 150) / 2)


def test_a_copy_that_was_timed_behind_other_work_counts_where_it_is_the_shorter_one():
    arms = [point("first", 0, 1_040, copy=172), point("last", 0, 1_153, copy=157), point("skip", 0, 1_000)]
    for arm in arms:
        arm.summary.metrics["table_copy_queued_ns"] = 182  # its memory lay farther away
    assert pair_orders(arms).iloc[0]["copy_ns"] == 157
    for arm, queued in zip(arms, (155, 154, None), strict=True):
        arm.summary.metrics["table_copy_queued_ns"] = queued
    row = pair_orders(arms).iloc[0]
    assert (row["copy_ns"], row["unexplained_ns"]) == (154, -1)
    assert row["copy_share"] == pytest.approx(153 / 154)


def test_arms_without_events_take_the_copy_from_the_equal_ones_with_events():
    # GIVEN the same arms with events and without, where nothing times a copy, and others on another stream
    def arm(order, median, stream, *, events):
        made = point(order, 0, median)
        if not events:
            del made.summary.metrics["table_copy_p50_ns"]
        made.parameters.update({"measure.device_events": events, "stream": stream})
        return made

    periods = {True: (1_050, 1_000), False: (1_040, 998)}
    table = pair_orders([
        arm(order, median, stream, events=events) for stream in ("a", "b") for events in (True, False)
        for order, median in zip(("last", "skip"), periods[events], strict=True) if events or stream == "a"
    ] + [arm(order, 1, "c", events=False) for order in ("last", "skip")])
    rows = table.set_index(["stream", "measure.device_events"])[["last_minus_skip_ns", "copy_ns", "copy_share"]]
    assert rows.loc[("a", "true")].tolist() == [50, 160, pytest.approx(50 / 160)]
    assert rows.loc[("a", "false")].tolist() == [42, 160, pytest.approx(42 / 160)]
    assert rows.loc[("c", "false")].isna().tolist() == [False, True, True]


def test_separate_runs_have_no_launches_and_no_interval():
    plain = [ArmPoint(order, {"runner.commit_order": order}, Summary({"period_p50_ns": period}, {}))
             for order, period in (("first", 10), ("last", 20))]
    row = pair_orders(plain).iloc[0]
    assert row[["launches", "last_minus_first_low_ns", "copy_share"]].isna().all()
    assert row["last_minus_first_ns"] == 10


@pytest.mark.parametrize("host_us", [0, 25])
@pytest.mark.parametrize("build_us", [20, 300])
def test_the_replay_tells_what_an_arm_without_the_copy_would_show(lab, host_us, build_us):
    # GIVEN steps that spend some host time in committing, on a host that hides the copy or does not
    def run(copy):
        made = lab()
        for number in range(8):
            with made.step(number):
                table = ()
                if copy:
                    with made.span("commit_block_table", "range"):
                        made.host(host_us * US)
                        table = (made.copy("block_table", 155 * US),)
                made.host(build_us * US)
                made.launch("forward", 400 * US, kind="graph", consumes=table)
                made.wait(made.launch("sample", 20 * US))
        return made

    found = exposure(run(copy=True).recording())
    periods = [made.rows["steps"][4]["period_ns"] for made in (run(True), run(False))]
    # THEN the replay without copy and call is the run without them, and never less than with a copy that is only free
    assert found.commit_step_ns == periods[0] - periods[1]
    assert found.commit_step_ns >= found.exposed_step_ns
    assert (found.exposed_step_ns == 0) == (build_us == 300)


def committed(lab, inside, *, call=10, copy=True, premium=30):
    """A step a number of `inside`: what the host does in the range before the table's call, which costs `call`.

    The first copy of each step costs `premium` more.
    """
    made = lab()
    for number, work in enumerate(inside):
        with made.step(number):
            table = ()
            if copy:
                with made.span("commit_block_table", "range"):
                    made.host(work)
                    table = (made.copy("block_table", 155, cost=call + premium),)
            for at in range(3):
                made.copy("ids", 1, cost=10 + (premium if at == 0 and not copy else 0))
            made.host(600)
            made.wait(made.launch("forward", 400, kind="graph", consumes=table))
    return made


def test_what_the_first_call_of_a_step_pays_for_being_first_is_not_saved(lab):
    # GIVEN calls of the table that cost what the others cost, 10, and 30 more for being first, whoever is
    found = exposure(committed(lab, [9] * 8).recording())
    periods = [committed(lab, [9] * 8, copy=copy).rows["steps"][4]["period_ns"] for copy in (True, False)]
    assert found.commit_step_ns == periods[0] - periods[1] == 9 + 10
    assert found.exposed_step_ns == 0


def test_a_call_that_is_not_the_first_of_its_step_is_saved_whole(lab):
    behind = lab()
    for number in range(8):
        with behind.step(number):
            behind.copy("ids", 1, cost=10)
            with behind.span("commit_block_table", "range"):
                table = behind.copy("block_table", 155, cost=40)
            behind.host(600)
            behind.wait(behind.launch("forward", 400, kind="graph", consumes=(table,)))
    assert exposure(behind.recording()).commit_step_ns == 40


def test_steps_that_the_machine_disturbed_do_not_speak_for_all(lab):
    # GIVEN two of ten steps in which the host was held up in the range; each step loses its own range in the replay
    found = exposure(committed(lab, [9, 9, 9, 9, 900, 9, 9, 2_000, 9, 9], premium=0).recording())
    assert found.commit_step_ns == 9 + 10


def test_the_change_of_the_period_is_the_median_over_blocks_of_steps(lab):
    # GIVEN three blocks, set apart by steps that do not count; in the longest one commits cost 50 more
    made = committed(lab, [9] * 14 + [59] * 20, premium=0)
    for row in made.rows["steps"]:
        row["warmup"] = row["step"] in (6, 7, 13, 14)
    assert exposure(made.recording()).commit_step_ns == 9 + 10


def test_a_buffer_without_a_range_of_its_own_has_no_such_figure(lab, steps):
    assert exposure(steps(lab(), 8).recording(), "ids").commit_step_ns is None
