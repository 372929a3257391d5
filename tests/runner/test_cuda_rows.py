"""Rows of the `cuda` device from stamps at both borders: queued or idle, corrected, with bounds, or null."""

import pytest
from stepscope.runner.devices import cuda_events
from stepscope.runner.devices.cuda_marks import CLOCK_NS, STALE_NS, Marks
from stepscope.runner.devices.cuda_rows import notes

from .cuda_fakes import HOST_NS, OFFSET_NS, Rows, fake_timeline, stamped


@pytest.fixture
def timeline():
    return fake_timeline()


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

    @pytest.mark.parametrize(("engine", "start"), [("h2d", 50_029), ("", 50_401)])
    def test_under_cupti_the_pair_on_the_copy_engine_reads_longer(self, timeline, engine, start):
        bench = Rows(timeline, queued_bias_ns=401, engine_bias_ns=13, profiled_bias_ns=29)
        bench.lane.engine = engine
        bench.copy(*stamped(bench.lane, 50_000, 60_000), call=1_000, profiled=True)
        assert bench.copies()[0][:2] == (start, 60_000)

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
    marks.waited(now_ns)
    assert (marks.take() is border) is (bench.lane.last is border) is shared


def test_notes_name_the_stream_that_was_not_joined(timeline):
    found = notes(Rows(timeline).rows, 0, {"output", "copy"})
    assert [column for _, column, _ in found] == ["span_ns", "span_ns"]
    assert found[0][2].startswith("side stream copy not joined")
