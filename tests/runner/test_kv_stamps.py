"""Stamps beside KV cells: a read that meets another request's cell, another position's or another text's is told."""

from dataclasses import replace

import pytest
from stepscope.errors import BrokenInvariant
from stepscope.runner.invariants import checker
from stepscope.runner.invariants.checker import CHECKS
from stepscope.runner.kv_groups import KVGroup
from stepscope.workloads.step import CachedRequests, StepDelta


@pytest.fixture
def stamps_only(monkeypatch):
    """Runs whose only check is the stamps: what they find, they find by themselves."""
    for name in CHECKS:
        monkeypatch.setitem(checker.CHECKS, name, lambda view: None)
    monkeypatch.setattr(checker.Rollbacks, "follow", lambda self, delta: None)


def begin(tiny_runner, **switches):
    """A has eight tokens in two blocks, B six in two."""
    t = tiny_runner(**switches)
    t.run({"A": 8, "B": 6}, new=[t.new("A", range(8), [1, 2]), t.new("B", range(50, 56), [3, 4])])
    return t


def table(t):
    return t.runner.state.batch.block_tables.device.pools[0].tables[0]


def test_reads_are_counted_and_right(tiny_runner, cached):
    t = begin(tiny_runner)
    t.run({"A": 1, "B": 1}, cached=cached(("A", 8, [5]), ("B", 6, None)))
    assert t.runner.checks.report().kv_reads == 8 + 6 + 9 + 7


def test_sampled_checks_leave_no_stamps(tiny_runner):
    assert begin(tiny_runner, check="sample").runner.checks.report().kv_reads is None


def test_a_block_of_another_request(tiny_runner, cached, stamps_only):
    t = begin(tiny_runner)
    t.runner.observe(lambda name, facts: table(t).__setitem__((0, 0), 3) if name == "cumsum" else None)
    with pytest.raises(BrokenInvariant, match=r"kv_stamps .* 'A' reads position 0 in slot 12, a cell of 'B' at pos"):
        t.run({"A": 1, "B": 1}, cached=cached(("A", 8, [5]), ("B", 6, None)))


def test_a_block_of_another_place(tiny_runner, cached, stamps_only):
    t = begin(tiny_runner)
    t.runner.observe(lambda name, facts: table(t).__setitem__((0, 0), 2) if name == "cumsum" else None)
    with pytest.raises(BrokenInvariant, match=r"'A' reads position 0 in slot 8, a cell of 'A' at position 4"):
        t.run({"A": 1, "B": 1}, cached=cached(("A", 8, [5]), ("B", 6, None)))


def test_a_cell_that_was_written_with_another_token(tiny_runner, cached, stamps_only):
    # GIVEN a step that fed A's last prompt token wrong; its cell is found wrong by the step after it as well
    t = tiny_runner()
    spoil = lambda name, facts: facts["inputs"].input_ids[:1].add_(1) if name == "slot_mapping" else None  # noqa: E731
    t.runner.observe(spoil)
    with pytest.raises(BrokenInvariant, match=r"'A' reads position 0 in slot 4, .* behind another text"):
        t.run({"A": 8}, new=[t.new("A", range(8), [1, 2])])


def test_a_cell_that_nobody_has_written(tiny_runner, cached, stamps_only):
    # GIVEN a count that jumps over a token
    t = begin(tiny_runner)
    with pytest.raises(BrokenInvariant, match=r"'B' reads position 6 in slot 18, a cell that no request has written"):
        t.run({"B": 1}, cached=cached(("B", 7, None)))


def test_a_block_given_away_too_early(tiny_runner, cached, stamps_only):
    # GIVEN a scheduler that hands A's first block to a newcomer while A runs on: the newcomer overwrites it
    t = begin(tiny_runner)
    t.run({"C": 2}, new=[t.new("C", range(90, 94), [1])])
    with pytest.raises(BrokenInvariant, match=r"'A' reads position 0 in slot 4, a cell of 'C' at position 0"):
        t.run({"A": 1, "C": 1}, cached=cached(("A", 8, [5]), ("C", 2, None), history={"A": range(9)}))


def test_a_found_prefix_must_be_the_same_text(tiny_runner, stamps_only):
    # GIVEN blocks of A that are said to be a prefix of two newcomers; only one of them begins as A does
    t = begin(tiny_runner)
    t.run({"C": 2}, new=[t.new("C", [*range(4), 70, 71], [1, 6], computed=4)])
    with pytest.raises(BrokenInvariant, match=r"'D' reads position 2 in slot 6, a cell of 'A' .* behind another text"):
        t.run({"D": 2}, new=[t.new("D", [0, 1, 9, 3, 70, 71], [1, 7], computed=4)])


def test_a_window_that_is_nulled_too_early(tiny_runner, cached, stamps_only, monkeypatch):
    # GIVEN a window of 6 whose blocks are let go one block too early
    t = begin_windowed(tiny_runner)
    right = KVGroup.passed
    monkeypatch.setattr(KVGroup, "passed", lambda self, computed: right(self, computed + 4))
    with pytest.raises(BrokenInvariant, match=r"group 1: 'A' reads position 3 in slot 3, a cell that no request"):
        t.runner.execute(step_of(t, computed=8))


def begin_windowed(tiny_runner):
    t = tiny_runner(kv_groups=("full", "window=6"))
    t.run({"A": 8}, new=[replace(t.new("A", range(8), ()), block_ids=((1, 2, 3), (4, 5, 6)))])
    return t


def step_of(t, computed):
    cached = CachedRequests(("A",), (None,), (computed,), (1,))
    return StepDelta(1, cached=cached, num_scheduled_tokens={"A": 1})
