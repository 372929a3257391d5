"""Event bookkeeping of the `cuda` device, on events that a test fires by hand: no GPU is needed."""

from collections import deque

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.runner.devices import cuda_events
from stepscope.runner.devices.cuda_idle import CHUNK, SHORT_NS, IdleWork

from .cuda_fakes import HOST_NS, FakeEvent, FakeStream, fake_timeline, stamped


@pytest.fixture
def timeline():
    return fake_timeline()


class TestTimeline:
    def test_unread_and_unfired_events_have_no_time(self, timeline):
        lane = timeline.lane(FakeStream())
        first, second = stamped(lane, 700, None)
        assert first.device_ns is None
        timeline.resolve(HOST_NS)
        assert (first.device_ns, second.device_ns) == (700, None)
        assert [stamp is first for stamp in timeline.resolved] == [True]

    def test_an_event_is_pooled_only_after_it_was_read(self, timeline):
        lane = timeline.lane(FakeStream())
        (stamp,) = stamped(lane, None)
        event = stamp.event
        timeline.resolve(HOST_NS)
        assert event not in timeline.pool
        event.fire(5)
        timeline.resolve(HOST_NS)
        assert timeline.pool[-1] is event
        assert stamp.event is None

    def test_a_dry_pool_makes_new_events_and_never_takes_one_in_use(self, timeline):
        timeline.pool = deque()
        lane = timeline.lane(FakeStream())
        stamps = stamped(lane, *[None] * 3)
        assert len({id(stamp.event) for stamp in stamps}) == 3

    def test_one_that_does_not_fire_holds_up_its_own_stream_only(self, timeline):
        stuck, free = timeline.lane(FakeStream()), timeline.lane(FakeStream())
        stamped(stuck, None, 10)
        (stamp,) = stamped(free, 20)
        timeline.resolve(HOST_NS)
        assert stamp.device_ns == 20
        assert len(stuck.waiting) == 2

    def test_the_watchdog_gives_an_event_up(self, timeline):
        lane = timeline.lane(FakeStream())
        lost, later = stamped(lane, None, 900)
        timeline.resolve(HOST_NS)
        assert not lost.lost
        timeline.resolve(HOST_NS + cuda_events.WATCHDOG_NS)
        assert (lost.lost, lost.device_ns, later.device_ns, timeline.lost) == (True, None, 900, 1)

    def test_what_a_wait_has_shown_is_read_without_asking(self, timeline):
        lane = timeline.lane(FakeStream())
        stamps = stamped(lane, 10, 20, 30)
        events = [stamp.event for stamp in stamps]
        lane.done = stamps[1].number
        timeline.settle(8)
        assert [stamp.device_ns for stamp in stamps] == [10, 20, None]
        assert [event.asked for event in events] == [0, 0, 0]

    def test_settle_reads_no_more_than_it_may_and_nothing_while_another_reads(self, timeline):
        lane = timeline.lane(FakeStream())
        stamps = stamped(lane, 10, 20, 30)
        lane.done = stamps[-1].number
        timeline.settle(2)
        assert len(lane.waiting) == 1
        with timeline.lock:
            timeline.settle(2)
        assert len(lane.waiting) == 1

    def test_anchors_move_along_so_that_float32_keeps_its_step(self, timeline):
        lane = timeline.lane(FakeStream())
        times = [second * 1_500_000_000 for second in range(1, 9)]
        stamps = stamped(lane, *times)
        timeline.resolve(HOST_NS)
        assert [stamp.device_ns for stamp in stamps] == times
        assert stamps[-1].device_ns - timeline._anchor.device_ns < 2 * cuda_events.REBASE_NS

    def test_case_16_streams_of_another_device_are_refused(self, timeline):
        with pytest.raises(UsageError, match="cuda:1 on the timeline of cuda:0"):
            timeline.lane(FakeStream(torch.device("cuda", 1)))

    def test_an_untimed_stamp_gives_its_event_back_when_nobody_can_wait_for_it(self, timeline):
        lane = timeline.lane(FakeStream())
        held = lane.record_untimed()
        event = held.event
        timeline.resolve(HOST_NS)
        assert event not in timeline.pool
        del held
        assert timeline.pool[-1] is event


def test_a_lane_has_kernels_until_somebody_has_waited_for_what_is_behind_them(timeline):
    lane = timeline.lane(FakeStream())
    assert not lane.has_kernels
    (stamp,) = stamped(lane, 10)
    lane.kernels = stamp.number
    assert lane.has_kernels, "nobody knows"
    lane.done = stamp.number
    assert not lane.has_kernels
    # behind a wait for another stream: until the next stamp has fired
    lane.wait_for_others()
    assert lane.has_kernels
    lane.done = stamped(lane, 20)[0].number
    assert not lane.has_kernels


class TestIdleWork:
    @pytest.fixture
    def idle(self):
        """On a clock that stands; the last wait for tokens took a millisecond."""
        self.time = 0
        idle = IdleWork(lambda: self.time)
        idle._lasted["tokens"] = 1_000_000
        return idle

    def test_work_goes_on_until_the_event_fires(self, idle):
        # GIVEN two jobs with ten chunks each, and an event that fires at the fifth look
        done = []
        for name in ("read", "write"):
            idle.add(lambda limit, name=name: done.append((name, limit)) or (limit if len(done) < 20 else 0))
        event = FakeEvent(enable_timing=True)
        event.query = iter([False] * 4 + [True]).__next__
        idle.wait(event, "tokens")
        assert done == [("read", CHUNK), ("write", CHUNK)] * 2

    def test_it_ends_when_nothing_is_left_to_do(self, idle):
        left = [CHUNK, 1, 0]
        idle.add(lambda limit: left.pop(0))
        idle.wait(FakeEvent(enable_timing=True), "tokens")
        assert left == []

    def test_no_job_begins_in_the_second_half_of_the_expected_wait(self, idle):
        done = []

        def job(limit):
            done.append(self.time)
            self.time += 200_000
            return limit

        idle.add(job)
        idle.wait(FakeEvent(enable_timing=True), "tokens")
        assert done == [0, 200_000, 400_000]

    def test_a_wait_is_expected_to_last_as_the_one_before(self, idle):
        done = []
        idle.add(lambda limit: done.append(self.time) or 0)
        for duration_ns, worked in ((200_000, 0), (10_000, 1), (200_000, 0), (1, 1)):
            event, before = FakeEvent(enable_timing=True), len(done)
            event.synchronize = lambda spent=duration_ns: setattr(self, "time", self.time + spent)
            idle.wait(event, "slot")
            assert len(done) - before == worked

    @pytest.mark.parametrize("lasted_ns", [None, SHORT_NS - 1])
    def test_a_wait_that_is_short_or_new_is_left_alone(self, idle, lasted_ns):
        idle.add(lambda limit: pytest.fail("worked in the way of the step"))
        if lasted_ns is not None:
            idle._lasted["slot"] = lasted_ns
        idle.wait(FakeEvent(enable_timing=True), "slot")

    def test_broken_off_waits_serve_all_jobs(self, idle):
        # GIVEN waits that are long enough for one chunk each
        done = []
        for name in ("read", "take", "write"):
            idle.add(lambda limit, name=name: done.append(name) or limit)
        for _ in range(6):
            event = FakeEvent(enable_timing=True)
            event.query = iter([False, True]).__next__
            idle._lasted["tokens"] = 1_000_000
            idle.wait(event, "tokens")
        assert done == ["read", "take", "write"] * 2

    def test_it_never_waits_for_a_fired_event(self, idle):
        event = FakeEvent(enable_timing=True)
        event.fire(1)
        idle.add(lambda limit: pytest.fail("worked in the way of the step"))
        idle.wait(event, "tokens")


def test_the_worker_leaves_young_events_to_their_owner(timeline):
    lane = timeline.lane(FakeStream())
    old, young = stamped(lane, 10, 20)
    old.recorded_ns, young.recorded_ns = 0, 5
    timeline._resolve(cuda_events.WORKER_AGE_NS + 4, cuda_events.WORKER_AGE_NS)
    assert (old.device_ns, young.device_ns) == (10, None)
