"""Two steps in flight on real memory: streams are threads, and the test decides when a forward may run."""

import threading

import pytest

from .stream_threads import PATIENCE_S, WORK, Pipeline


@pytest.fixture
def pipeline():
    made = []

    def make(*switches, **more):
        made.append(Pipeline(*switches, **more))
        return made[-1]

    yield make
    for each in made:
        each.let(*range(1, len(each.gates) + 1))
        each.device.close()


def run_two(p):
    """Two steps enqueued while the first forward is held; True when the second one's copies could end meanwhile."""
    p.step(1)
    p.step(2)
    arrived = p.device.ended(p.device._last["copy"]) or wait_shortly(p, "copy")
    p.let(1, 2)
    p.device.drain()
    return arrived


def wait_shortly(p, stream):
    return p.device._done[p.device._last[stream]].wait(0.2)


COMMITS = ("full", "dirty_rows", "staged")


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("device_buffers", ["double", "staged_d2d"])
def test_a_copy_lands_beside_the_forward_in_flight_and_nobody_reads_it_too_early(pipeline, device_buffers, commit):
    p = pipeline("dedicated", device_buffers, commit=commit)
    assert run_two(p)
    assert p.seen == [p.right(1), p.right(2)]


@pytest.mark.parametrize("commit", COMMITS)
def test_with_one_guarded_set_the_copy_waits_for_the_forward(pipeline, commit):
    p = pipeline("dedicated", "single_guarded", commit=commit)
    assert not run_two(p)
    assert p.seen == [p.right(1), p.right(2)]


def test_without_the_guard_the_forward_in_flight_reads_the_next_steps_inputs(pipeline):
    p = pipeline("dedicated", "single_unguarded")
    assert run_two(p)
    assert p.seen == [p.right(2), p.right(2)]


@pytest.mark.parametrize("device_buffers", ["double", "staged_d2d"])
def test_many_steps_with_two_in_flight_stay_right(pipeline, device_buffers):
    p = pipeline("dedicated", device_buffers, commit="staged")
    for number in range(1, 12):
        p.step(number)
        if number > 1:
            p.let(number - 1)
    p.let(11)
    p.device.drain()
    assert p.seen == [p.right(number) for number in range(1, 12)]


def test_mutant_sets_that_do_not_alternate_are_not_guarded_by_the_wait_for_the_set_before(pipeline, monkeypatch):
    from stepscope.runner.buffers.device_sets import DeviceSets

    p = pipeline("dedicated", "double")
    readers = [None, None]
    monkeypatch.setattr(DeviceSets, "advance", lambda self: setattr(self, "readers", list(readers)))
    assert run_two(p)
    assert p.seen[0] != p.right(1)


def test_mutant_a_landing_buffer_that_the_next_copy_does_not_wait_for(pipeline):
    p = pipeline("dedicated", "staged_d2d")
    held = threading.Event()
    p.device.launch("earlier", lambda: held.wait(PATIENCE_S), WORK)  # the move of step 1 cannot begin
    p.step(1)
    p.ordering._moved = None  # the mutant
    p.step(2)
    p.device.drain("copy")
    held.set()
    p.let(1, 2)
    p.device.drain()
    assert p.seen[0] != p.right(1)


def test_shared_memory_with_one_set_makes_the_host_wait_for_the_forward(pipeline):
    p = pipeline("compute", "single_guarded", staging="zero_copy")
    p.step(1)
    threading.Timer(0.05, p.let, (1,)).start()
    p.step(2)
    p.let(2)
    p.device.drain()
    assert p.device.host_waits == ["shared_memory"]
    assert p.seen == [p.right(1), p.right(2)]


@pytest.mark.parametrize("commit", ["full", "staged"])
def test_shared_memory_with_two_sets_lets_one_forward_run_on(pipeline, commit):
    p = pipeline("compute", "double", staging="zero_copy", commit=commit)
    p.step(1)
    p.step(2)
    assert p.device.host_waits == []
    p.let(1)
    p.step(3)
    assert p.device.host_waits == ["shared_memory"]
    p.let(2, 3)
    p.device.drain()
    assert p.seen == [p.right(1), p.right(2), p.right(3)]
    assert {row[-1] for row in p.ledger.rows["buffers"]} == {"none"}


def test_shared_memory_that_nobody_waits_for_is_a_hazard_in_the_books_and_in_the_data(pipeline):
    p = pipeline("compute", "single_unguarded", staging="zero_copy")
    p.step(1)
    p.step(2)
    p.let(1, 2)
    p.device.drain()
    assert p.device.host_waits == []
    assert p.seen[0] == p.right(2)
    hazards = [row[-1] for row in p.ledger.rows["buffers"] if row[1] == "ids"]
    assert hazards == ["none", "possible"]
