"""Phases on the device: marks at both borders, that come late or never."""

from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.probe import phases as phases_module

from .probe_fakes import FakeMarks, TickingClock, run_step


class TestMarks:
    def test_spans_come_from_marks_at_both_borders(self):
        ledger = Ledger()
        clock = TickingClock()
        probe = Probe(ledger, clock, marks=FakeMarks(clock))
        run_step(probe, 0)
        probe.resolve_pending()
        # span, err = sum of both, begin
        assert [row[3:] for row in ledger.rows["phases"]] == [
            (1000, None, None, 6, 0), (1000, None, None, 6, 2000), (1000, None, None, 6, 4000),
        ]

    def test_the_end_mark_lies_behind_the_declared_cost_and_counts_as_the_phases(self):
        # GIVEN a forward of 500 ns and a mark that costs the host 7
        ledger = Ledger()
        clock = TickingClock(forward=500)
        marks = FakeMarks(clock, mark_cost=7)
        probe = Probe(ledger, clock, marks=marks)
        with probe.step(0) as step, step.phase("forward"):
            pass
        probe.finish()
        begin, end = ledger.rows["spans"][0][5:7]
        # THEN both marks lie within the phase's host interval, the second behind the 500 ns
        assert begin < marks.taken[0] <= begin + 7
        assert begin + 7 + 500 < marks.taken[1] < end
        assert ledger.rows["phases"][0][2] == end - begin == 7 + 500 + 10 + 7 + 10

    def test_unknown_marks_are_pending_and_keep_the_order(self):
        ledger = Ledger()
        clock = TickingClock()
        marks = FakeMarks(clock, known=3)
        probe = Probe(ledger, clock, marks=marks)
        run_step(probe, 0)
        run_step(probe, 1)
        assert [row[:2] for row in ledger.rows["phases"]] == [(0, "preprocess")]
        marks.known = 8
        probe.resolve_pending()
        assert [row[:2] for row in ledger.rows["phases"]][1:] == [(0, "forward"), (0, "sample"), (1, "preprocess")]
        # WHEN the run ends and the rest never fired
        probe.finish()
        assert [row[3] for row in ledger.rows["phases"]] == [1000, 1000, 1000, 1000, None, None]
        assert ("phases", "span_ns", "2 phases: their device events never fired") in probe.diagnostics()

    def test_an_event_that_never_fires_does_not_hold_everything_back(self, monkeypatch):
        monkeypatch.setattr(phases_module, "MAX_PENDING", 4)
        ledger = Ledger()
        clock = TickingClock()
        probe = Probe(ledger, clock, marks=FakeMarks(clock, known=0))
        for number in range(3):
            run_step(probe, number)
        assert ledger.rows["phases"][0][:4] == (0, "preprocess", 40, None)
        assert len(ledger.rows["phases"]) == 5

    def test_level_host_takes_no_marks(self):
        ledger = Ledger()
        clock = TickingClock()
        marks = FakeMarks(clock)
        probe = Probe(ledger, clock, marks=marks, level="host")
        run_step(probe, 0)
        assert marks.taken == []
        assert [row[3] for row in ledger.rows["phases"]] == [None, None, None]
        assert probe.diagnostics() == (("phases", "span_ns", "the probe ran at level host"),)

    def test_a_device_without_marks(self):
        class NoMarks(FakeMarks):
            def mark(self):
                return None

        ledger = Ledger()
        clock = TickingClock()
        probe = Probe(ledger, clock, marks=NoMarks(clock))
        run_step(probe, 0)
        probe.finish()
        assert [row[3] for row in ledger.rows["phases"]] == [None, None, None]
        assert [row[2] for row in ledger.rows["phases"]] == [40, 40, 40]

    def test_a_phase_that_its_step_left_open_has_a_span_and_no_figures(self):
        ledger = Ledger()
        clock = TickingClock()
        probe = Probe(ledger, clock, marks=FakeMarks(clock))
        with probe.step(0) as step:
            step.phase("forward").__enter__()
        probe.finish()
        assert ledger.rows["phases"] == []
        assert [row[2] for row in ledger.rows["spans"]] == ["forward"]
