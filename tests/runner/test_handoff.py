"""Submitting ahead: what may be in flight, where tokens come from, which stream brings them back and when."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.probe.probe import STEP_FIGURES, Probe
from stepscope.runner.devices import make_device
from stepscope.runner.devices.sim_clock import DeclaredHost
from stepscope.runner.handoff.plan import PreviousStep, tokens_wanted
from stepscope.runner.inputs.flat_indices import FlatIndices
from stepscope.workloads.step import CachedRequests, StepDelta


class Ahead:
    """Requests A, B, ... that decode, submitted step by step; blocks of each are its own from the start."""

    def __init__(self, tiny_runner, handoff="async_auto", **switches):
        self.t = tiny_runner(token_handoff=handoff, **switches)
        self.computed = {}
        self.step = 0

    def submit(self, scheduled, new=(), finished=()):
        first = {name: 8 * (ord(name) - ord("A")) + 1 for name in scheduled}
        announced = tuple(
            self.t.new(name, np.arange(3, 3 + scheduled[name]), range(first[name], first[name] + 8)) for name in new
        )
        known = [name for name in scheduled if name not in new]
        cached = CachedRequests(
            tuple(known), (None,) * len(known), tuple(self.computed[name] for name in known), (0,) * len(known)
        )
        delta = StepDelta(self.step, announced, cached, dict(scheduled), frozenset(finished))
        for name, count in scheduled.items():
            self.computed[name] = self.computed.get(name, 0) + count
        self.step += 1
        return self.t.runner.submit(delta)


@pytest.fixture
def ahead(tiny_runner):
    return lambda *handoff, **switches: Ahead(tiny_runner, *handoff, **switches)


def test_a_third_step_in_flight_is_refused(ahead):
    a = ahead()
    a.submit({"A": 3}, new="A")
    a.submit({"A": 1})
    with pytest.raises(UsageError, match="step 2: 2 steps are in flight already; collect the result of step 0 first"):
        a.submit({"A": 1})


def test_asking_for_the_later_step_collects_both(ahead):
    a = ahead()
    first, second = a.submit({"A": 3}, new="A"), a.submit({"A": 1})
    later = second.result()
    assert first.result() is first.result()
    outputs = a.t.runner.state.requests["A"].output_token_ids.tolist()
    assert outputs == [*first.result().sampled["A"], *later.sampled["A"]]


def test_who_comes_back_before_its_token_is_refused(ahead):
    # GIVEN a request whose token is in flight, and a step without it
    a = ahead()
    a.submit({"A": 3}, new="A")
    a.submit({"B": 2}, new="B")
    # WHEN it is to go on with that token, which is not of the step before
    with pytest.raises(UsageError, match="'A' goes on with a token in flight, but not of step 1, the one before"):
        a.submit({"A": 1})


def test_who_comes_back_with_its_token_goes_on(ahead):
    a, one_by_one = ahead(), ahead("sync")
    first = a.submit({"A": 3}, new="A")
    a.submit({"B": 2}, new="B")
    first.result()
    shown = a.submit({"A": 1}).result().sampled
    one_by_one.submit({"A": 3}, new="A").result()
    one_by_one.submit({"B": 2}, new="B").result()
    assert one_by_one.submit({"A": 1}).result().sampled == shown


def test_a_request_that_has_ended_takes_its_late_token_with_it(ahead):
    # GIVEN A, which ends while its last token is on the way, and another A in its place
    a = ahead()
    a.submit({"A": 3}, new="A").result()
    late = a.submit({"A": 1})
    a.computed.clear()
    again = a.submit({"A": 4}, new="A", finished="A")
    # WHEN both come back
    assert list(late.result().sampled) == ["A"]
    token = again.result().sampled["A"]
    # THEN the new one has its own token only
    assert a.t.runner.state.requests["A"].output_token_ids.tolist() == list(token)


def flat(counts):
    counts = np.asarray(counts, dtype=np.int32)
    total, uniform = int(counts.sum()), bool((counts == 1).all())
    nothing = np.zeros(0, dtype=np.int32)
    return FlatIndices(total, nothing, nothing, nothing.astype(np.int64), uniform, bool((counts == 0).any()))


@pytest.mark.parametrize(
    ("before", "now", "counts", "ids", "places", "rows", "in_place"),
    [
        ("abc", "abc", [1, 1, 1], [-1, -1, -1], [0, 1, 2], [0, 1, 2], True),
        ("abc", "ab", [1, 1], [-1, -1], [0, 1], [0, 1], True),  # the last one left
        ("abc", "abd", [1, 1, 2], [-1, -1, 7, 8], [0, 1], [0, 1], True),  # a prompt behind them
        ("abc", "cb", [1, 1], [-1, -1], [0, 1], [2, 1], False),  # condensed
        ("abc", "abc", [2, 1, 1], [5, -1, -1, -1], [1, 2, 3], [0, 1, 2], False),  # a chunk's last token
        ("abc", "dab", [2, 1, 1], [7, 8, -1, -1], [2, 3], [0, 1], False),
        ("abc", "abc", [1, 0, 1], [-1, -1], [0, 1], [0, 2], False),  # b has no token in this step
        ("abc", "abc", [1, 1, 1], [4, -1, 5], [1], [1], False),  # others start over with what the host has
    ],
)
def test_what_is_wanted_from_the_step_before(before, now, counts, ids, places, rows, in_place):
    previous = PreviousStep(6, tuple(before), None, np.ones(len(before), dtype=np.bool_))
    wanted = tokens_wanted(
        tuple(now), np.asarray(counts, dtype=np.int32), flat(counts), np.asarray(ids, dtype=np.int32), previous
    )
    assert wanted.places.tolist() == places
    assert wanted.rows.tolist() == rows
    assert wanted.in_place is in_place


def test_nothing_is_wanted_where_the_host_has_everything():
    previous = PreviousStep(6, ("a",), None, np.ones(1, dtype=np.bool_))
    one = np.ones(1, dtype=np.int32)
    assert tokens_wanted(("a",), one, flat([1]), np.asarray([9], dtype=np.int32), previous) is None


@pytest.mark.parametrize(
    ("handoff", "steady", "moved"),
    [
        ("async_slice", ["positions", "query_start_loc", "seq_lens"], "waits"),
        ("async_scatter", ["positions", "query_start_loc", "seq_lens", "handoff_rows"], "handoff_rows"),
        ("async_auto", ["positions", "query_start_loc", "seq_lens"], "handoff_rows"),
    ],
)
def test_what_travels(ahead, handoff, steady, moved):
    a = ahead(handoff)
    ledger = a.t.ledger

    def copied(step):
        return [row[6] for row in ledger.rows["copies"][step:] if row[1] == "h2d" and row[6] != "block_table"]

    a.submit({"A": 3, "B": 2}, new="AB")
    # WHEN every row is where it was, the input ids do not travel at all
    mark = len(ledger.rows["copies"])
    second = a.submit({"A": 1, "B": 1})
    assert copied(mark) == steady
    assert "token_handoff" in [row[2] for row in ledger.rows["spans"]]
    # WHEN A ends and B moves up, a map travels, or the host waits for the tokens
    second.result()
    before, mark = len(ledger.rows["waits"]), len(ledger.rows["copies"])
    third = a.submit({"A": 1, "B": 1})
    a.submit({"B": 1}, finished="A")
    assert ("handoff_rows" in copied(mark)) == (moved == "handoff_rows")
    assert len(ledger.rows["waits"]) - before == (moved == "waits")
    third.result()


def modelled(tiny_runner, **switches):
    """Twelve decode steps of two requests on the modelled device, two in flight; rows by column name."""
    ledger = Ledger()
    device = make_device("sim", ledger=ledger, host=DeclaredHost({"build_indices": 20_000}))
    probe = Probe(ledger, device.clock, marks=device)
    a = Ahead(tiny_runner, probe=probe, ledger=ledger, device=device, **switches)
    waiting = [a.submit({"A": 3, "B": 2}, new="AB")]
    for _ in range(11):
        waiting.append(a.submit({"A": 1, "B": 1}))
        waiting.pop(0).result()
    waiting.pop().result()
    device.synchronize()
    probe.finish()
    names = ("step", "start_ns", "end_ns", *STEP_FIGURES)
    return ledger, [dict(zip(names, row, strict=False)) for row in ledger.rows["steps"]]


def test_the_next_step_is_enqueued_before_the_tokens_are_waited_for(tiny_runner):
    ledger, steps = modelled(tiny_runner, graph_mode="full", capture_sizes=(2, 8))
    forwards = [row for row in ledger.rows["spans"] if row[1] == "gpu:compute" and row[3] == "graph"]
    waits = [row for row in ledger.rows["waits"] if row[2] == "tokens"]
    assert [step["step"] for step in steps] == list(range(12))
    # latency reaches beyond the step's own end, into the time of the one behind it
    for step, after in pairwise(steps):
        assert step["start_ns"] + step["latency_ns"] > after["end_ns"]
    # the wait belongs to the step that ended last, and the device always had the next forward in its queue
    assert [row[0] for row in waits] == [*range(1, 12), 11]
    enqueued = {row[8]: row[6] for row in ledger.rows["spans"] if row[3] == "launch"}
    samples = [row for row in ledger.rows["spans"] if row[1] == "gpu:compute" and row[2] == "sample"]
    for forward, sampled in zip(forwards[1:], samples[:-1], strict=True):
        assert enqueued[forward[8]] < sampled[6]
    # so the steady period is the device's: what stands on its stream from one forward to the next
    periods = [later - sooner for sooner, later in pairwise(step["start_ns"] for step in steps)]
    on_device = [later - sooner for sooner, later in pairwise(row[5] for row in forwards)]
    assert periods[6:10] == on_device[5:9]


def test_tokens_return_on_a_stream_of_their_own(tiny_runner):
    ledger, _ = modelled(tiny_runner)
    samples = [row for row in ledger.rows["spans"] if row[1] == "gpu:compute" and row[2] == "sample"]
    returns = [row for row in ledger.rows["copies"] if row[1] == "d2h"]
    assert {row[7] for row in returns} == {"gpu:output"}
    for sampled, back in zip(samples, returns, strict=True):
        assert back[10] >= sampled[6]  # it starts behind the sampling that it brings back
        assert (back[0], "event", back[-1], sampled[8]) in ledger.rows["edges"]
    # nothing on the compute stream waits for it
    ops = {row[-1] for row in returns}
    assert not [row for row in ledger.rows["edges"] if row[3] in ops]


@pytest.mark.parametrize(("slot_mapping", "last_reader"), [("triton", "forward"), ("host", "lm_head")])
def test_a_copy_waits_for_the_last_reader_of_its_target(tiny_runner, slot_mapping, last_reader):
    # GIVEN copies on a stream of their own; slots mapped on the host bring the sampler's places with them
    ledger, _ = modelled(tiny_runner, copy_stream="dedicated", slot_mapping=slot_mapping)
    names = {row[8]: row[2].split(".")[0] for row in ledger.rows["spans"] if row[3] == "launch"}
    for step in range(2, 12):
        copy = next(row for row in ledger.rows["copies"] if row[0] == step and row[1] == "h2d")
        awaited = [row[3] for row in ledger.rows["edges"] if row[1] == "event" and row[2] == copy[-1]]
        reached = {name for op in range(1, max(awaited) + 1) if (name := names.get(op))}
        assert last_reader in reached
        assert names[max(awaited)] in (last_reader, "sample")
