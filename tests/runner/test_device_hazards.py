"""Verdicts on device tables: where a copy may overwrite what a forward in flight still reads, and where it did."""

import pytest
from stepscope.runner.devices.streams import HappensBefore

from .stream_threads import Pipeline


@pytest.fixture
def pipeline():
    made = []

    def make(device_buffers, **more):
        made.append(Pipeline("dedicated", device_buffers, **more))
        return made[-1]

    yield make
    for each in made:
        each.let(*range(1, len(each.gates) + 1))
        each.device.close()


def verdicts(p, name="table (device)"):
    """(set, reuse count, hazard) of each use, in the order of the copies."""
    p.factory.flush()
    rows = [row for row in p.ledger.rows["buffers"] if row[1] == name]
    assert {(row[5], row[4], row[8], row[2], row[3]) for row in rows} == {("device", None, None, 24, 24)}
    return [(row[6], row[7], row[-1]) for row in rows]


def two_steps(p, *, early):
    """Both are enqueued; the first forward runs behind the second one's copies, or before them."""
    p.step(1)
    if early:
        p.let(1)
        p.device.drain()
    p.step(2)
    if not early and p.ordering._guarded is False:
        p.device.drain("copy")
    p.let(1, 2)
    p.device.drain()


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("device_buffers", ["single_guarded", "double"])
def test_with_the_guard_there_is_no_hazard(pipeline, device_buffers, verify):
    p = pipeline(device_buffers, verify=verify)
    for number in range(1, 6):
        p.step(number)
        p.let(number)
    p.device.drain()
    sets = 2 if device_buffers == "double" else 1
    assert verdicts(p) == [(at % sets, at // sets, "none") for at in range(5)]
    assert [row[-1] for row in p.ledger.rows["buffers"] if row[1] == "ids (device)"] == ["none"] * 5


def test_without_it_an_overwrite_is_observed_in_the_step_that_was_read_wrongly(pipeline):
    p = pipeline("single_unguarded", verify=True)
    two_steps(p, early=False)
    assert p.seen == [p.right(2), p.right(2)]
    # step 1's table is not what step 1 sent; step 2's copy is the one that nothing kept back
    assert verdicts(p) == [(0, 0, "observed"), (0, 1, "possible")]
    # AND the host's memory is not to blame
    assert {row[-1] for row in p.ledger.rows["buffers"] if row[1] == "table"} == {"none"}
    # AND of a buffer that kernels write as well nothing but the order is known
    assert [row[-1] for row in p.ledger.rows["buffers"] if row[1] == "ids (device)"] == ["none", "possible"]


def test_what_could_have_been_overwritten_and_was_not_is_possible(pipeline):
    p = pipeline("single_unguarded", verify=True)
    two_steps(p, early=True)
    assert p.seen == [p.right(1), p.right(2)]
    assert verdicts(p) == [(0, 0, "none"), (0, 1, "possible")]


def test_without_checksums_it_can_only_be_possible(pipeline):
    p = pipeline("single_unguarded")
    two_steps(p, early=False)
    assert verdicts(p) == [(0, 0, "none"), (0, 1, "possible")]


def test_a_forward_that_the_host_has_waited_for_is_no_reader_any_more(pipeline):
    p = pipeline("single_unguarded")
    p.step(1)
    p.let(1)
    p.device.host_wait(p.device.record("compute"), "tokens")
    p.step(2)
    assert verdicts(p) == [(0, 0, "none"), (0, 1, "none")]


def test_copies_of_the_compute_stream_are_in_order_and_have_no_such_rows(pipeline):
    p = Pipeline("compute", "single_guarded")
    p.step(1)
    p.let(1)
    p.device.drain()
    assert verdicts_names(p) == {"ids", "table"}
    p.device.close()


def verdicts_names(p):
    return {row[1] for row in p.ledger.rows["buffers"]}


def test_order_between_streams():
    known = HappensBefore()
    known.enqueue(1, "compute", ())
    known.enqueue(2, "copy", ())
    # WHEN nothing ties the streams together
    assert known.orders(1, "compute", ())
    assert not known.orders(1, "copy", ())
    # THEN a wait does, for what comes next and for everything after it
    assert known.orders(1, "copy", (1,))
    known.enqueue(3, "copy", (1,))
    assert known.orders(1, "copy", ())
    assert not known.orders(1, "output", ())
    # AND what the host has seen is over for every stream
    known.see(3)
    assert known.orders(1, "output", ())
    assert known.orders(0, "output", ())


def test_a_runner_that_verifies_its_copies_settles_every_verdict(tmp_path):
    # GIVEN two steps in flight on two sets of buffers
    from stepscope.experiments.measure import measure
    from stepscope.experiments.resolve import resolve

    spec = resolve({
        "workload": {"regime": "steady", "settings": {"num_reqs": 4}}, "device": "sim", "measure": {"steps": 8},
        "runner": {
            "copy_stream": "dedicated", "device_buffers": "double", "verify_copies": True, "max_num_seqs": 4,
            "token_handoff": "async_auto", "num_blocks": 600,
        },
    })  # fmt: skip
    buffers = measure(spec, tmp_path / "r").recording.table("buffers")
    tables = buffers[buffers["buffer"] == "block_table (device)"]
    assert sorted(set(tables["slot"])) == [0, 1]
    assert len(tables) == len(set(buffers["step"]))
    assert set(buffers["hazard"]) == {"none"}
