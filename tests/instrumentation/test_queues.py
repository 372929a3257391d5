"""The queue model on programs small enough to work out by hand."""

import pytest
from stepscope.instrumentation.queues import (
    Enqueue,
    HostUntil,
    HostWait,
    HostWork,
    OpTimes,
    QueueModel,
    host_wait_return,
    replay,
)


def test_an_idle_lane_starts_when_the_host_is_done_and_the_latency_has_passed():
    # GIVEN 10 ns of host work, a call of 5 ns, a latency of 2 ns, WHEN replayed, THEN 17 is the start
    result = replay([HostWork(10), Enqueue(1, "compute", 30, latency_ns=2, host_cost_ns=5), HostWait(1, 4)])

    assert result.ops[1] == OpTimes(ready_ns=17, start_ns=17, end_ns=47, cause="host", cause_op=None)
    assert result.host_ns == (10, 15, 51)


def test_a_busy_lane_is_first_in_first_out_and_names_what_bound_the_start():
    result = replay([Enqueue(1, "compute", 100), Enqueue(2, "compute", 7), Enqueue(3, "copy", 5, waits=(1, 2))])

    assert result.ops[2] == OpTimes(0, 100, 107, "lane", 1)
    assert result.ops[3] == OpTimes(0, 107, 112, "wait", 2)


def test_ties_go_to_the_host_then_to_the_lane():
    queues = QueueModel()
    queues.enqueue(1, "compute", 0, 50)
    queues.enqueue(2, "copy", 0, 50)

    assert queues.next_start("compute", 50, (2,)) == (50, "host", None)
    assert queues.next_start("compute", 49, (2,)) == (50, "lane", 1)
    assert queues.lane_end("compute") == 50
    assert queues.lane_end("output") is None


def test_a_zero_duration_replaces_the_recorded_one_and_the_consumer_moves():
    program = [Enqueue(1, "compute", 155, latency_ns=3), HostWork(40), Enqueue(2, "compute", 10, latency_ns=3)]

    recorded = replay(program, start_ns=1000)
    free = replay(program, {1: 0}, start_ns=1000)

    # 155 ns of copy, of which 40 hide behind host work
    assert recorded.ops[2].start_ns == 1158
    assert free.ops[2].start_ns == 1043
    assert recorded.ops[2].start_ns - free.ops[2].start_ns == 115


@pytest.mark.parametrize(
    ("call", "end", "returned"),
    [(100, 50, 102), (100, 100, 107), (100, 94, 102), (100, 96, 103), (100, 500, 507)],
)
def test_a_wait_costs_its_call_or_its_wake_up_whichever_ends_later(call, end, returned):
    assert host_wait_return(call, end, overhead_ns=2, wakeup_ns=7) == returned


def test_host_until_jumps_forwards_only():
    assert replay([HostWork(10), HostUntil(50), HostUntil(20)]).host_ns == (10, 50, 50)


def test_times_at_2_to_the_60_stay_exact():
    base = 2**60 + 1
    result = replay([HostWork(3), Enqueue(1, "compute", 5, latency_ns=1)], start_ns=base)
    assert result.ops[1].end_ns == base + 9


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([HostWait(7)], "operation 7 is not in the queue model"),
        ([Enqueue(1, "a", 1), Enqueue(1, "a", 1)], "operation 1 is enqueued twice"),
        ([Enqueue(1, "a", -1)], "operation 1 has a negative duration: -1 ns"),
        ([Enqueue(1, "a", 1, waits=(9,))], "operation 9 is not in the queue model"),
    ],
)
def test_programs_that_no_device_could_run_are_refused(program, message):
    with pytest.raises(ValueError, match=message):
        replay(program)


def test_a_forgotten_operation_still_orders_its_lane():
    queues = QueueModel()
    queues.enqueue(1, "compute", 0, 50)
    queues.forget(1)

    assert queues.enqueue(2, "compute", 10, 5).start_ns == 50
    with pytest.raises(ValueError, match="operation 1 is not"):
        queues.end_of(1)
