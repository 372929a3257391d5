"""Event bookkeeping of the `cuda` device, on events that a test fires by hand: no GPU is needed."""

from collections import deque

import pytest
import torch
from stepscope.errors import UsageError
from stepscope.instrumentation.probe import Ledger
from stepscope.runner.devices import cuda_events
from stepscope.runner.devices.cuda_events import EventTimeline
from stepscope.runner.devices.cuda_idle import CHUNK, SHORT_NS, IdleWork
from stepscope.runner.devices.cuda_marks import CLOCK_NS, STALE_NS, Marks
from stepscope.runner.devices.cuda_rows import CopyCorrection, DeviceRows, OpenOperation, notes

HOST_NS = 2**60
OFFSET_NS = 2**60 - 5_000
DEVICE = torch.device("cuda", 0)


class FakeStream:
    def __init__(self, device=DEVICE):
        self.device = device


class FakeEvent:
    """Fires when the test says at which device time (ns)."""

    made = 0

    def __init__(self, enable_timing):
        assert enable_timing
        type(self).made += 1
        self.time_ns = None
        self.asked = 0

    def record(self, stream):
        self.time_ns = None

    def fire(self, time_ns):
        self.time_ns = time_ns

    def query(self):
        self.asked += 1
        return self.time_ns is not None

    def synchronize(self):
        if self.time_ns is None:
            self.time_ns = 0

    def elapsed_time(self, other):
        if other.time_ns is None:
            raise RuntimeError("device not ready")
        return (other.time_ns - self.time_ns) / 1e6


@pytest.fixture
def timeline():
    line = EventTimeline(DEVICE, FakeEvent, worker=False)
    line.start(FakeStream())
    return line


def stamped(lane, *times, lead_ns=1_000):
    """Stamps that fire at the device times, each recorded `lead_ns` earlier on the host; None: it never fires."""
    stamps = []
    for time in times:
        stamp = lane.record(OFFSET_NS + (time or 0) - lead_ns)
        if time is not None:
            stamp.event.fire(time)
        stamps.append(stamp)
    return stamps


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
        assert timeline.backlog == 2

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
        assert timeline.backlog == 1
        with timeline.lock:
            timeline.settle(2)
        assert timeline.backlog == 1

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
        held = lane.record_untimed(HOST_NS)
        event = held.event
        timeline.resolve(HOST_NS)
        assert event not in timeline.pool
        del held
        assert timeline.pool[-1] is event


class Rows:
    """DeviceRows on a timeline of fakes; `copy` and `kernel` enqueue one operation between stamps at device times."""

    def __init__(self, timeline, **known):
        self.ledger = Ledger()
        self.timeline = timeline
        self.lane = timeline.lane(FakeStream())
        known = {"peak_bytes_per_s": 1e9, "launch_ns": 500, "kernel_latency_ns": 200, **known}
        self.rows = DeviceRows(self.ledger, timeline, CopyCorrection(**known))
        self.op = 0

    def add(self, begin, end, call, *, row, lane="", size=None):
        self.op += 1
        call_ns = OFFSET_NS + call
        self.rows.waiting.append(OpenOperation(1, self.op, begin, end, call_ns, call_ns + 500, row, lane))

    def copy(self, begin, end, call, size=1_000):
        self.add(begin, end, call, row=("h2d", size, None, "pinned", "device", "b"), lane="gpu:compute")

    def kernel(self, begin, end, call):
        self.add(begin, end, call, row=("gpu:compute", "k", "kernel"))

    def finish(self, width_ns=100):
        """Constraints that leave the offset open by `width_ns` on either side, then all rows."""
        for device_ns in (0, 1_900_000_000):
            self.rows.corridor.not_before(device_ns, OFFSET_NS + device_ns - width_ns)
            self.rows.corridor.not_after(device_ns, OFFSET_NS + device_ns + width_ns)
        self.timeline.resolve(HOST_NS)
        self.rows.finish()
        return self.ledger.rows

    def copies(self, **options):
        """(start, end, err, queued) of each copy, times from the offset on."""
        return [
            (row[10] - OFFSET_NS, row[11] - OFFSET_NS, row[12], row[13]) for row in self.finish(**options)["copies"]
        ]

    def spans(self):
        return [(row[5] - OFFSET_NS, row[6] - OFFSET_NS, row[7]) for row in self.finish()["spans"]]


class TestRows:
    def test_a_copy_behind_other_work_is_queued_and_corrected(self, timeline):
        # GIVEN a copy that was called at 1000 and began at 50000, with a pair that reads long by 401
        bench = Rows(timeline, queued_bias_ns=401, queued_err_ns=7)
        bench.copy(*stamped(bench.lane, 50_000, 60_000), call=1_000)
        assert bench.copies() == [(50_401, 60_000, 107, True)]

    @pytest.mark.parametrize(("engine", "start", "err"), [("h2d", 50_013, 3), ("d2h", 50_401, 7), ("", 50_401, 7)])
    def test_behind_a_copy_of_its_direction_the_engine_is_its_own(self, timeline, engine, start, err):
        known = {"queued_bias_ns": 401, "queued_err_ns": 7, "engine_bias_ns": 13, "engine_err_ns": 3}
        bench = Rows(timeline, **known)
        bench.lane.engine = engine
        bench.copy(*stamped(bench.lane, 50_000, 60_000), call=1_000)
        assert bench.copies() == [(start, 60_000, 100 + err, True)]

    def test_a_copy_on_an_idle_stream_has_bounds(self, timeline):
        # GIVEN a begin event that fired before the copy was called at 50000; 1000 bytes take 1000 ns at best
        bench = Rows(timeline)
        bench.copy(*stamped(bench.lane, 40_000, 60_000), call=50_000)
        start, end, err, queued = bench.copies()[0]
        # THEN it began between the call and 59000, and the truth is within the error, clock included
        assert (start, end, queued) == (54_500, 60_000, False)
        assert err == 4_500 + 100

    def test_within_the_clocks_error_nobody_is_called_queued(self, timeline):
        # GIVEN a begin event 300 ns behind the call's return, and a clock that is off by up to 400
        bench = Rows(timeline)
        bench.copy(*stamped(bench.lane, 50_800, 60_000), call=50_000)
        assert bench.copies(width_ns=400)[0][3] is False
        other = Rows(timeline)
        other.copy(*stamped(other.lane, 50_800, 60_000), call=50_000)
        assert other.copies(width_ns=100)[0][3] is True

    def test_a_small_copy_has_no_times_but_its_queue_may_be_known(self, timeline):
        bench = Rows(timeline)
        (before,) = stamped(bench.lane, 90_000)
        bench.copy(before, None, call=1_000, size=64)
        bench.copy(None, None, call=2_000, size=64)
        rows = bench.finish()["copies"]
        assert [row[10:14] for row in rows] == [(None, None, None, True), (None, None, None, False)]

    def test_a_kernel_on_an_idle_stream_begins_with_its_launch(self, timeline):
        # GIVEN a stamp of long ago, a launch of 500 ns at 50000 and a latency of 200
        bench = Rows(timeline)
        bench.kernel(*stamped(bench.lane, 10_000, 60_000), call=50_000)
        assert bench.spans() == [(50_700, 60_000, 100 + 700)]

    def test_a_kernel_behind_other_work_begins_with_its_stamp(self, timeline):
        bench = Rows(timeline)
        bench.kernel(*stamped(bench.lane, 55_000, 60_000), call=50_000)
        assert bench.spans() == [(55_000, 60_000, 100)]

    def test_unfired_and_lost_events_give_null_and_hold_nobody_up(self, timeline):
        # GIVEN an operation whose end event never fires, and one behind it
        bench = Rows(timeline)
        begin, lost, end = stamped(bench.lane, 1_000, None, 9_000)
        bench.kernel(begin, lost, call=500)
        bench.kernel(begin, end, call=500)
        timeline.resolve(HOST_NS + cuda_events.WATCHDOG_NS)
        rows = bench.finish()["spans"]
        assert [row[5:8] for row in rows] == [(None, None, None), (OFFSET_NS + 1_200, OFFSET_NS + 9_000, 300)]
        assert ("spans", "start_ns", "1 events never fired") in notes(bench.rows, timeline.lost, ())

    def test_an_empty_corridor_gives_null_and_is_noted(self, timeline):
        bench = Rows(timeline)
        bench.kernel(*stamped(bench.lane, 1_000, 2_000), call=500)
        rows = bench.finish(width_ns=-50)
        assert rows["spans"][0][5:8] == (None, None, None)
        assert notes(bench.rows, 0, ()) == [
            ("spans", "start_ns", "1 operations: no line fits the clock corridor, one of the clocks is at fault")
        ]

    def test_rows_are_written_in_portions_once_their_window_is_over(self, timeline):
        # GIVEN operations in the first window of the clock, and one in the second
        bench = Rows(timeline)
        bench.rows.corridor.not_after(0, OFFSET_NS + 500)
        for start in (1_000, 3_000, 5_000):
            bench.kernel(*stamped(bench.lane, start, start + 1_000), call=start - 900)
        timeline.resolve(HOST_NS)
        assert (bench.rows.take(16), bench.rows.write(16)) == (6, 0)
        assert bench.ledger.rows["spans"] == []
        bench.kernel(*stamped(bench.lane, 3_000_000_000, 3_000_001_000), call=2_999_999_000)
        timeline.resolve(HOST_NS)
        # WHEN the second window has begun THEN at most as many rows as asked for are written at a time
        bench.rows.take(16)
        assert [bench.rows.write(2) for _ in range(3)] == [2, 1, 0]
        assert len(bench.rows.waiting) == 1
        assert all(row[5] is not None for row in bench.ledger.rows["spans"])


def test_who_goes_on_after_the_end_has_the_window_fitted_again(timeline):
    # GIVEN rows that were written to the end, through constraints of the first 10 us of a window
    bench = Rows(timeline)
    bench.rows.corridor.not_after(1_000, OFFSET_NS + 1_200)
    bench.rows.corridor.not_after(9_000, OFFSET_NS + 9_200)
    bench.kernel(*stamped(bench.lane, 1_000, 9_000), call=900)
    timeline.resolve(HOST_NS)
    bench.rows.finish()
    assert bench.ledger.rows["spans"][0][5] is not None
    # WHEN more comes in the same window, a second later THEN nothing is said of it before its own constraints count
    bench.kernel(*stamped(bench.lane, 1_000_000_000, 1_000_004_000), call=999_999_000)
    timeline.resolve(HOST_NS)
    assert bench.rows.write(8) == 0
    assert bench.rows.take(8) == 2
    assert bench.rows.write(8) == 0
    bench.rows.corridor.not_after(1_000_004_000, OFFSET_NS + 1_000_004_300)
    bench.rows.finish()
    end, err = (bench.ledger.rows["spans"][1][at] for at in (6, 7))
    assert 0 < err < 2_000
    assert abs(end - OFFSET_NS - 1_000_004_000) <= err


@pytest.mark.parametrize(
    ("age_ns", "since_ns", "shared"),
    [(50_000, CLOCK_NS + 1, True), (STALE_NS + 1, CLOCK_NS, True), (STALE_NS + 1, CLOCK_NS + 1, False)],
)
def test_a_mark_shares_the_border_but_where_the_clock_wants_an_event(timeline, age_ns, since_ns, shared):
    bench = Rows(timeline)
    (border,) = stamped(bench.lane, 7_000, lead_ns=500)
    now_ns = border.recorded_ns + age_ns

    class Clock:
        def now_ns(self):
            return now_ns

    marks = Marks(bench.lane, bench.rows, Clock())
    marks._clock_ns = now_ns - since_ns
    marks.take()
    assert (bench.lane.last is border) is shared


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


def test_notes_name_the_stream_that_was_not_joined(timeline):
    found = notes(Rows(timeline).rows, 0, {"output", "copy"})
    assert [column for _, column, _ in found] == ["span_ns", "span_ns"]
    assert found[0][2].startswith("side stream copy not joined")
