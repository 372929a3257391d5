"""Queue delays: a copy that began before its call returned has none; quantiles that fall on one are null."""

from __future__ import annotations

import pytest
from stepscope.analysis.queue_delays import queue_delays, without_times_below_zero
from stepscope.analysis.summary import summarise


def copies(source, delays, err_ns: int = 30):
    """A copy a step: its call lasts from 100 to 200, it starts `delay` behind that; with the steps they are in."""
    steps = [{"step": at, "start_ns": 0, "end_ns": 900, "warmup": False, "complete": True} for at in range(len(delays))]
    rows = [
        {"step": at, "buffer": "block_table", "direction": "h2d", "enqueue_start_ns": 100, "enqueue_end_ns": 200,
         "start_ns": 200 + delay, "end_ns": 400 + delay, "err_ns": err_ns, "size_bytes": 8}
        for at, delay in enumerate(delays)
    ]
    return source(steps=steps, copies=rows)


@pytest.mark.parametrize(("delays", "p10", "p50", "p90", "mean"), [
    ((10, 20, 60), 10, 20, 60, 30),
    ((0, 4, 8, 9), 0, 6, 9, 5.25),
    ((-5, 20, 60), None, 20, 60, None),  # two of three have a delay: the median is one of them
    ((-5, -4, 20, 60), None, None, 60, None),  # half between one that has none and one that has: nobody knows
    ((-5, -4, -3), None, None, None, None),
    ((), None, None, None, None),
])  # fmt: skip
def test_a_quantile_is_null_where_it_falls_on_a_copy_that_began_before_its_call_returned(
    source, delays, p10, p50, p90, mean
) -> None:
    found = queue_delays(copies(source, delays), "block_table")
    assert (found.quantile(10), found.median(), found.quantile(90), found.mean()) == (p10, p50, p90, mean)
    assert (found.reason() is None) == (min(delays, default=0) >= 0)


def test_copies_to_the_device_of_that_buffer_count_where_their_times_are_known(source) -> None:
    made = copies(source, (10, 20, 60))
    one = made.rows["copies"][0]
    made.rows["copies"] += [
        {**one, "buffer": "ids", "start_ns": 1200}, {**one, "direction": "d2h", "start_ns": 1200},
        {**one, "start_ns": None}, {**one, "enqueue_end_ns": None},
    ]  # fmt: skip
    assert queue_delays(made, "block_table").values.tolist() == [10, 20, 60]


def test_the_summary_says_how_much_it_is_at_most(source) -> None:
    # GIVEN three copies of which two start 5 and 4 ns before the end of a call of 100 ns, their times known to 30 ns
    found = summarise(copies(source, (-5, -4, 60)))
    # THEN no figure below 0 stands there, and the reason has the bound: start + err - begin of the call
    assert found.metrics["queue_delay_p50_ns"] is None
    assert found.reasons["queue_delay_p50_ns"] == (
        "2 of 3 copies began before their call returned, or within the times' error of it;"
        " the median is at most 0.2 µs"
    )


def test_a_stored_delay_below_zero_is_read_as_unknown() -> None:
    metrics, reasons = without_times_below_zero({"queue_delay_p50_ns": -3, "num_reqs": 8}, {"x": "y"})
    assert metrics == {"queue_delay_p50_ns": None, "num_reqs": 8}
    assert set(reasons) == {"x", "queue_delay_p50_ns"}
    assert without_times_below_zero({"queue_delay_p50_ns": 0}, {}) == ({"queue_delay_p50_ns": 0}, {})
