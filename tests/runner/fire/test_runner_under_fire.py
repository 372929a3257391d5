"""Random lives of requests against the slow reference, and stamps on every KV cell, in every arrangement.

`make fire` runs it at full size: STEPSCOPE_FIRE random steps in all, and as many examples again.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stepscope.errors import BrokenInvariant
from stepscope.runner.invariants.view import StepView
from stepscope.runner.state.input_batch import InputBatch

from .arrangements import ARRANGEMENTS, DEVICE, HYBRID
from .harness import NUM_PROMPTS, Fire, random_operations
from .puppeteer import IDLE

STEPS = int(os.environ.get("STEPSCOPE_FIRE", "480"))
EACH = STEPS // len(ARRANGEMENTS) + 1
EXAMPLES = max(3, STEPS // 200)

digits = st.lists(st.sampled_from((9, 0, 1, 3, 5, 6, 7, 8, IDLE)), min_size=1, max_size=6)
small = st.integers(0, 11)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("step"), digits),
        st.tuples(st.just("step"), digits),
        st.tuples(st.just("add"), st.integers(0, NUM_PROMPTS - 1)),
        st.tuples(st.sampled_from(("finish", "preempt", "shuffle", "mask")), small),
        st.tuples(st.sampled_from(("reset", "collect")), st.none()),
    ),
    min_size=8,
    max_size=30,
)
START = [("add", 1), ("add", 0), ("step", [9]), ("add", 4)]


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_operations_of_any_order(name) -> None:
    switches = ARRANGEMENTS[name]

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(operations)
    def every_array_is_the_references(sequence) -> None:
        fire = Fire(**switches)
        for operation in [*START, *sequence]:
            fire.do(*operation)

    every_array_is_the_references()


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_no_read_of_another_cell_in_a_long_life(name) -> None:
    # GIVEN a pool that is reused at once, and requests that come, go, lose their blocks and get other ones
    fire = Fire(names=EACH + 20, **ARRANGEMENTS[name])
    # WHEN the arrangement has lived through its share of the steps
    for operation in endless(len(name)):
        fire.do(*operation)
        if fire.steps >= EACH:
            break
    # THEN no read met another cell, and everything that is dangerous has happened
    report, puppets = fire.runner.checks.report(), fire.puppets
    print(f"\n{name}: {fire.steps} steps, {report.kv_reads:,} reads of KV cells, 0 wrong")  # noqa: T201  # see -s
    assert report.steps_checked == fire.steps >= EACH
    assert report.kv_reads > 50 * EACH
    assert puppets.num_resumed
    assert puppets.num_finished
    assert not fire.config.num_drafts or (puppets.num_accepted and puppets.num_rejected)


def endless(seed: int):
    while True:
        yield from random_operations(seed, 200)
        seed += 1000


def test_the_reference_sees_what_a_check_could_miss(monkeypatch) -> None:
    # GIVEN a batch that packs its rows in another order: legal for every check, and not what this design does
    right = InputBatch.settle

    def turned(self, num_scheduled):
        right(self, num_scheduled)
        if self.num_reqs > 1:
            self.swap_rows(0, self.num_reqs - 1)

    monkeypatch.setattr(InputBatch, "settle", turned)
    play(Fire(compare=False))
    with pytest.raises(AssertionError, match="rows"):
        play(Fire())


def play(fire: Fire, seed: int = 3, count: int = 12) -> None:
    for operation in random_operations(seed, count):
        fire.do(*operation)


@pytest.mark.parametrize("switches", [{}, HYBRID, DEVICE], ids=["plain", "hybrid", "drafts"])
def test_stamps_alone_see_a_block_given_away(switches, monkeypatch) -> None:
    # GIVEN a puppeteer that gives blocks back while their request runs on
    fire = Fire(compare=False, **switches)
    puppets = fire.puppets
    lose = puppets._blocks

    def leaky(live, length, shared):
        added = lose(live, length, shared)
        if added is not None and live.blocks[0] and puppets.step == 6:
            puppets.pool.give(live.blocks[0][:1])
        return added

    monkeypatch.setattr(puppets, "_blocks", leaky)
    # THEN somebody reads a cell that is another's by then
    with pytest.raises(BrokenInvariant, match=r"kv_stamps|slot_ownership"):
        play(fire, seed=5, count=80)


@pytest.mark.parametrize("remembered", [True, False])
def test_blocks_may_be_null_before_the_present_count_says_so(remembered, monkeypatch) -> None:
    # GIVEN counts that fell: drafts were rejected, and the step behind them brought fewer
    fire = Fire(compare=False, **HYBRID, **DEVICE)
    if remembered:
        play(fire, seed=5, count=12)
        return
    # WHEN a check takes the count of now for the highest there was, THEN it accuses a sound table
    monkeypatch.setattr(StepView, "num_unseen", lambda self, row, group: 0)
    with pytest.raises(BrokenInvariant, match="row_ownership"):
        play(fire, seed=5, count=12)
