"""Copies without device times, and queues that need time between two operations: what the replay makes of them."""

import numpy as np
import pytest
from stepscope.analysis.exposure import exposure
from stepscope.analysis.gaps import gaps
from stepscope.analysis.placement import SMALL_COPY_NS, Queued, place
from stepscope.analysis.replay import replays
from stepscope.analysis.what_if import table_copies, what_if

US = 1_000
SIZES = {"copy_ns": 155 * US, "forward_ns": 488 * US, "build_ns": 60 * US, "other_ns": 40 * US, "between_ns": 10 * US}


def queued(*ops, awaited=None):
    """Operations of lane gpu:compute: (enqueued, start, end), or (enqueued,) for one without device times; `awaited` is
    position -> end of what it waits for on another queue.
    """
    rows = [(op[0], *(op[1:] or (0, 0)), len(op) == 3) for op in ops]
    enqueued, start, end = (np.array([row[at] for row in rows], dtype=np.int64) for at in range(3))
    timed = np.array([row[3] for row in rows])
    awaited_ns = np.array([(awaited or {}).get(at, 0) for at in range(len(ops))], dtype=np.int64)
    return Queued(["gpu:compute"] * len(ops), np.arange(1, len(ops) + 1), enqueued, start, end, timed, awaited_ns)


class TestPlaces:
    def test_on_a_busy_queue_they_run_one_behind_the_other(self):
        ops = queued((0, 10_000, 90_000), (1_000,), (2_000,), (3_000, 99_000, 99_500))
        assert place(ops, {}) == {1: (90_000, 92_000), 2: (92_000, 94_000)}

    def test_on_an_idle_queue_they_run_when_they_are_enqueued(self):
        ops = queued((0, 10, 20), (50_000,), (70_000,), (80_000, 95_000, 96_000))
        assert place(ops, {}) == {1: (50_000, 50_000 + SMALL_COPY_NS), 2: (70_000, 70_000 + SMALL_COPY_NS)}

    def test_where_there_is_little_room_they_are_shorter(self):
        ops = queued((0, 10, 90_000), (1_000,), (2_000,), (3_000, 93_000, 99_500))
        assert place(ops, {}) == {1: (90_000, 92_000), 2: (92_000, 93_000)}
        ops = queued((0, 10, 90_000), (1_000,), (2_000,), (3_000, 90_000, 99_500))
        assert place(ops, {}) == {1: (90_000, 90_000), 2: (90_000, 90_000)}

    def test_a_wait_that_has_returned_is_a_bound(self):
        ops = queued((0, 10, 90_000), (1_000,), (2_000,))
        assert place(ops, {3: 93_500}) == {1: (90_000, 92_000), 2: (92_000, 93_500)}

    def test_on_a_queue_of_their_own_they_run_behind_what_they_wait_for(self):
        ops = queued((0,), (1_000,), (2_000,), awaited={1: 50_000, 2: 90_000})
        # nothing is known of the first one's begin; the others end before their waits return
        assert place(ops, {1: 9_000, 2: 60_000, 3: 91_000}) == {1: (50_000, 52_000), 2: (90_000, 91_000)}

    def test_without_a_bound_on_either_side_there_is_no_place(self):
        assert place(queued((0,), (5, 10, 20), (1_000,)), {}) == {}
        assert place(queued((5, 10, 20), (1_000,), (2_000,)), {2: 9_000}) == {1: (1_000, 3_000)}


def untimed(made, *buffers):
    """The recording of a device that gives small copies no times."""
    for row in made.rows["copies"]:
        if row["buffer"] in buffers:
            row.update(start_ns=None, end_ns=None, err_ns=None)
    return made.recording()


def run(lab, steps, **options):
    return steps(lab(), 8, **{**SIZES, **options})


@pytest.mark.parametrize("order", ["first", "last"])
def test_exposure_does_not_need_the_small_copies_times(lab, steps, order):
    # GIVEN the same run with and without device times of the small copy that lies between the table's and its reader
    truth = exposure(run(lab, steps, order=order).recording())
    found = exposure(untimed(run(lab, steps, order=order), "ids"))
    # THEN the copy's exposure and the period's are the same up to the small copy itself
    assert found.left_out <= 1  # nothing was timed before the very first operation
    assert found.steps["exposed_ns"].notna().all()
    worst = (found.steps["exposed_ns"] - truth.steps["exposed_ns"]).abs().max()
    assert worst <= SMALL_COPY_NS
    assert abs(found.exposed_step_ns - truth.exposed_step_ns) <= SMALL_COPY_NS
    assert truth.exposed_step_ns > 40 * US


def test_the_small_copy_that_the_host_waits_for_keeps_the_host_tied_to_the_device(lab, steps):
    # GIVEN steps that end with an untimed copy to the host, which the host awaits
    made = lab()
    for number in range(8):
        with made.step(number):
            table = made.copy("block_table", 155 * US)
            made.launch("reader", 5 * US, consumes=(table,))
            tokens = made.copy("tokens", 1_500)
            made.wait(tokens)
    # THEN without the table's copy the steps are shorter by its whole length
    found = what_if(untimed(made, "tokens"), table_copies(["block_table"], 0))
    assert found.saved_ns == pytest.approx(155 * US, abs=10)


class Pausing:
    """A lab whose queues need `pause` ns between two operations when the second one waited for the first."""

    def __init__(self, lab, pause):
        made = lab()
        plain = made._enqueue

        def enqueue(lane, duration, cost, latency):
            if made.tails.get(lane, 0) + pause > made.now + cost + latency:
                made.tails[lane] = made.tails.get(lane, 0) + pause
            return plain(lane, duration, cost, latency)

        made._enqueue = enqueue
        self.made = made


@pytest.mark.parametrize("pause", [0, 1, 2_600])
def test_a_pause_between_operations_does_not_look_like_the_host(lab, steps, pause):
    # GIVEN a queue that goes over from one operation to the next in `pause` ns, and a copy that delays its reader
    with_copy = steps(Pausing(lab, pause).made, 8, **SIZES)
    without = steps(Pausing(lab, pause).made, 8, **{**SIZES, "copy_ns": 0})
    periods = [made.rows["steps"][4]["period_ns"] for made in (with_copy, without)]
    found = exposure(with_copy.recording())
    # THEN the replay comes back exactly, and says what running without the copy's duration shows
    assert found.misfit_ns == 0
    assert found.exposed_step_ns == periods[0] - periods[1] > 40 * US
    judged = gaps(with_copy.recording())
    assert judged.steps["predecessor"].tolist()[1:] == ["peer"] * 7


def test_replaying_a_pausing_queue_unchanged_reproduces_it(lab, steps):
    [(_, line)] = replays(steps(Pausing(lab, 700).made, 8, copy_ns=155 * US).recording()).parts
    assert line.misfit_ns == 0


def two_in_flight(made, forward_us=900, copy_us=155, tokens_lane="gpu:output"):
    """Device-bound steps: the tokens leave on a queue of their own, and the host waits for those of the step before."""
    waiting = []
    for number in range(10):
        with made.step(number):
            with made.span("preprocess", "phase"):
                if copy_us:
                    table = made.copy("block_table", copy_us * US)
                made.host(100 * US)
            with made.span("forward", "phase"):
                forward = made.launch("forward", forward_us * US, consumes=(table,) if copy_us else ())
            with made.span("sample", "phase"):
                made.stream_wait(tokens_lane, forward)
                waiting.append(made.copy("tokens", 1_500, lane=tokens_lane))
                if len(waiting) > 1:
                    made.wait(waiting.pop(0))
    return made


def test_tokens_on_a_queue_on_which_nothing_was_timed_keep_the_host_tied_too(lab):
    made = two_in_flight(lab())
    truth = made.rows["steps"][6]["period_ns"] - two_in_flight(lab(), copy_us=0).rows["steps"][6]["period_ns"]
    found = exposure(untimed(made, "tokens"))
    # THEN the copy that the device waits for shows in the period, as in a run without it
    assert found.left_out == 1  # nobody waited for the last tokens, so nothing says when they had arrived
    assert found.exposed_step_ns == pytest.approx(truth, abs=10)
    assert truth == pytest.approx(155 * US, abs=10)


def test_a_device_that_takes_its_time_between_operations_is_not_waiting_for_an_event(lab):
    # GIVEN a queue that is never empty, and 12 us to go over to each operation: more than a launch's latency
    made = two_in_flight(Pausing(lab, 12 * US).made)
    judged = gaps(untimed(made, "tokens"))
    assert (judged.steps["idle_ns"] > judged.steps["tolerance_ns"]).iloc[3:].all()
    # THEN nothing but the device itself binds the steps
    assert judged.bound == "device"
    assert set(judged.steps["bound"].iloc[3:]) == {"device"}


def test_who_makes_no_copy_does_not_go_over_to_it_either(lab):
    # GIVEN 12 us before each operation of the queue
    made = two_in_flight(Pausing(lab, 12 * US).made)
    for row in made.rows["steps"]:
        copy = next(each for each in made.rows["copies"] if each["step"] == row["step"])
        made.rows["spans"].append({
            "step": row["step"], "pid": None, "lane": "host:main", "name": "commit_block_table", "kind": "range",
            "start_ns": copy["enqueue_start_ns"], "end_ns": copy["enqueue_end_ns"], "err_ns": 0,
        })  # fmt: skip
    without = two_in_flight(Pausing(lab, 12 * US).made, copy_us=0)
    measured = made.rows["steps"][6]["period_ns"] - without.rows["steps"][6]["period_ns"]
    found = exposure(untimed(made, "tokens"))
    assert measured == pytest.approx((155 + 12) * US, abs=10)
    # THEN a copy of no length still costs that, and no copy does not
    assert found.exposed_step_ns == pytest.approx(155 * US, abs=10)
    assert found.commit_step_ns == pytest.approx(measured, abs=10)


def test_where_the_hosts_waits_cannot_be_tied_nothing_is_said_of_the_period(lab):
    # GIVEN tokens without times, on a queue that waits for nothing that was recorded
    made = two_in_flight(lab())
    made.rows["edges"] = [row for row in made.rows["edges"] if row["kind"] != "event"]
    recording = untimed(made, "tokens")
    found = exposure(recording)
    # THEN how long each copy kept its reader waiting is known, and what the period would be is not: null, never 0
    assert found.steps["exposed_ns"].notna().any()
    assert (found.exposed_step_ns, found.commit_step_ns) == (None, None)
    assert "are waits of the host for operations whose end is not known" in found.exposed_step_reason
    assert what_if(recording, table_copies(["block_table"], 0)).reason == found.exposed_step_reason
